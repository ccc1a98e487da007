//! `memory:` keeps leases in this process, for tests and examples.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::sync::mpsc;

use super::registers::{Delivery, RegisterStore, Registers, SharedClock, is_spent, visible};
use crate::{
    clock::Clock,
    engine::{self, Applied, Command, Record, Wake},
    entropy::Entropy,
    error::Error,
    id::ClientId,
    name::Name,
    store::{Answer, Hint, Promises, Store},
    view::LeaseView,
};

/// Opens the world of that label: clients of this process that name the same one share their leases. The world of the
/// empty label is the caller's alone.
pub(super) fn open(label: &str, clock: Arc<dyn Clock>, entropy: &dyn Entropy) -> Arc<dyn Store> {
    static WORLDS: LazyLock<Mutex<HashMap<String, Weak<Mutex<World>>>>> = LazyLock::new(Mutex::default);

    let world = if label.is_empty() {
        Arc::default()
    } else {
        let mut worlds = unpoisoned(&WORLDS);
        worlds.retain(|_, world| world.strong_count() > 0);
        let known = worlds.get(label).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let world = Arc::default();
            worlds.insert(label.to_owned(), Arc::downgrade(&world));
            world
        })
    };
    let client = entropy.client_id();
    let (sender, hints) = mpsc::unbounded_channel();
    unpoisoned(&world).clients.insert(client, sender);
    let fingerprint = format!("memory:{label}");
    Arc::new(RegisterStore::new(Memory { world, clock, client, fingerprint, hints: tokio::sync::Mutex::new(hints) }))
}

#[derive(Debug)]
struct Memory {
    world: Arc<Mutex<World>>,
    clock: Arc<dyn Clock>,
    client: ClientId,
    fingerprint: String,
    hints: tokio::sync::Mutex<mpsc::UnboundedReceiver<Hint>>,
}

#[derive(Debug, Default)]
struct World {
    records: HashMap<Name, Record>,
    /// Larger than the fence of every record that was dropped because nothing else was in it.
    floor: u64,
    /// Since names that nobody asked for again were last swept.
    steps: usize,
    clients: HashMap<ClientId, mpsc::UnboundedSender<Hint>>,
}

/// Names are swept after so many steps at the earliest.
const SWEEP: usize = 1024;

/// No step leaves the world half changed, so a panic elsewhere does not spoil it.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    fn step(&mut self, clock: &dyn Clock, name: Name, command: &Command) -> Applied {
        let evidence = SharedClock::read(clock, self.floor);
        let mut record = self.records.remove(&name).unwrap_or_default();
        let applied = engine::apply(&mut record, command, &evidence);
        if record.is_idle() {
            self.floor = self.floor.max(record.fence + 1);
        } else {
            self.records.insert(name, record);
        }
        self.steps += 1;
        // As many steps as there are names pay for one look at all of them.
        if self.steps > self.records.len().max(SWEEP) {
            self.sweep(&evidence);
        }
        applied
    }

    /// Drops records in which everything is over.
    fn sweep(&mut self, evidence: &SharedClock) {
        self.steps = 0;
        let Self { records, floor, .. } = self;
        records.retain(|_, record| {
            let spent = is_spent(record, evidence);
            if spent {
                *floor = (*floor).max(record.fence + 1);
            }
            !spent
        });
    }
}

impl Registers for Memory {
    fn promises(&self) -> Promises {
        Promises { processes: false, ..Promises::ALL }
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn client(&self) -> Option<ClientId> {
        Some(self.client)
    }

    fn commit(&self, steps: Vec<(Name, Command)>, _patient: bool) -> Answer<'_, Vec<Result<Applied, Error>>> {
        let mut world = unpoisoned(&self.world);
        let applied = steps.into_iter().map(|(name, command)| Ok(world.step(&*self.clock, name, &command))).collect();
        Box::pin(std::future::ready(Ok(applied)))
    }

    fn inspect<'a>(&'a self, name: &'a Name) -> Answer<'a, LeaseView> {
        let world = unpoisoned(&self.world);
        let evidence = SharedClock::read(&*self.clock, world.floor);
        let view = world.records.get(name).map(|record| engine::view(name, record, &evidence));
        Box::pin(std::future::ready(Ok(view.unwrap_or_else(|| LeaseView::free(name.clone())))))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<LeaseView>> {
        let world = unpoisoned(&self.world);
        let evidence = SharedClock::read(&*self.clock, world.floor);
        let named = world.records.iter().filter(|(name, _)| name.as_str().starts_with(prefix));
        let mut views: Vec<LeaseView> = named.filter_map(|(name, record)| visible(name, record, &evidence)).collect();
        views.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Box::pin(std::future::ready(Ok(views)))
    }

    fn send(&self, name: &Name, wake: &Wake) -> Delivery {
        let world = unpoisoned(&self.world);
        let hint = Hint { name: name.clone(), id: wake.id, news: wake.news };
        match world.clients.get(&wake.client).map(|client| client.send(hint)) {
            Some(Ok(())) => Delivery::Sent,
            Some(Err(_)) | None => Delivery::Nobody,
        }
    }

    fn next_hint(&self) -> Answer<'_, Hint> {
        Box::pin(async {
            match self.hints.lock().await.recv().await {
                Some(hint) => Ok(hint),
                None => std::future::pending().await,
            }
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        unpoisoned(&self.world).clients.remove(&self.client);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{clock::SystemClock, engine::Leave, entropy::SystemEntropy};

    #[tokio::test]
    async fn names_that_nobody_asks_for_again_are_swept() {
        let entropy = SystemEntropy;
        let world: Arc<Mutex<World>> = Arc::default();
        let clock = SystemClock::shared();
        let step = |name: &str, remember: Option<Duration>| {
            let id = (&entropy as &dyn Entropy).attempt_id();
            let leave = Leave { id, remember: remember.map(Into::into) };
            unpoisoned(&world).step(&*clock, Name::new(name).unwrap(), &leave.into());
        };
        for number in 0..100 {
            step(&format!("once/{number}"), Some(Duration::from_millis(1)));
        }
        assert_eq!(unpoisoned(&world).records.len(), 100, "each has a tombstone");
        tokio::time::sleep(Duration::from_millis(5)).await;
        (0..2000).for_each(|_| step("busy", None));
        assert_eq!(unpoisoned(&world).records.len(), 0);
    }
}
