//! `sqlite:/path/leases.db`, the embedded store: many processes of one machine, no server.
//!
//! * `place`, `filesystem`, `host`: where the database lies, and whether it can be shared safely there.
//! * `database`, `row`: the file, its tables, and the boot that it is used in.
//! * `transact`: the engine's steps as transactions; `turnstile` in front of them, `lane` for what has to wait.
//! * `mailbox`: wake-ups between processes.
//! * `upkeep`: what keeps the file small.
//!
//! A step runs on its caller's thread if it need not wait for anyone. Time is the boot-time clock, which all processes
//! of a machine share; rows carry the number of the boot that they were written in, and what was held before it is
//! free, unless it never expires.

mod database;
mod faults;
mod filesystem;
mod host;
mod lane;
mod mailbox;
mod place;
mod row;
#[cfg(test)]
mod tests;
mod transact;
mod turnstile;
mod upkeep;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tokio::sync::oneshot;

use self::{
    database::{Database, PATIENCE},
    host::Host,
    lane::{Job, Lane},
    mailbox::{Mailbox, Sent},
    place::Place,
    transact::{Attempt, Outcomes, Steps, Surroundings},
    turnstile::{Turn, Turnstile},
    upkeep::Caretaker,
};
use super::registers::{Delivery, RegisterStore, Registers, Round};
use crate::{
    clock::Clock,
    engine::{Applied, Command, Wake},
    entropy::Entropy,
    error::Error,
    id::ClientId,
    name::Name,
    store::{Answer, Hint, Promises, Store},
    view::LeaseView,
};

/// Opens the database at `path`, and makes it if it is not there.
pub(super) fn open(path: &str, clock: Arc<dyn Clock>, entropy: &dyn Entropy) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(RegisterStore::new(Sqlite::open(path, &Host::this()?, clock, entropy)?)))
}

/// The store of one client.
#[derive(Debug)]
struct Sqlite {
    core: Arc<Core>,
    lane: Lane,
    fingerprint: String,
}

/// What the lane's thread shares with the callers.
#[derive(Debug)]
struct Core {
    place: Place,
    turnstile: Turnstile,
    database: Mutex<Database>,
    mailbox: Mailbox,
    caretaker: Caretaker,
    clock: Arc<dyn Clock>,
}

impl Sqlite {
    fn open(path: &str, host: &Host, clock: Arc<dyn Clock>, entropy: &dyn Entropy) -> Result<Self, Error> {
        let place = Place::prepare(path)?;
        let turnstile = Turnstile::open(&place)?;
        let client = entropy.client_id();
        let database = Database::open(&place, &turnstile, host, &*clock, client, || mailbox::clear(&place))?;
        tracing::debug!(path = %place.path.display(), era = database.era, "opened the embedded store");
        let fingerprint = format!("sqlite:{}", place.path.display());
        let mailbox = Mailbox::new(&place, client);
        let core =
            Core { place, turnstile, database: Mutex::new(database), mailbox, caretaker: Caretaker::default(), clock };
        Ok(Self { core: Arc::new(core), lane: Lane::default(), fingerprint })
    }

    /// What can be done at once, on this thread. `None`: it has to wait.
    fn commit_at_once(&self, steps: &[(Name, Command)]) -> Option<Result<Outcomes, Error>> {
        let core = &self.core;
        if transact::takes(steps)
            && let Err(error) = core.place.require_unmoved()
        {
            return Some(Err(error));
        }
        let mut database = core.try_database()?;
        if let [(name, command)] = steps
            && database.may_be_read(command)
        {
            match database.glance(name, command, &*core.clock) {
                Ok(Some(applied)) => return Some(Ok(vec![applied])),
                Ok(None) => {}
                Err(error) if faults::is_busy(&error) => return None,
                Err(error) => return Some(Err(database.explain(error))),
            }
        }
        if self.lane.is_busy() {
            return None;
        }
        let turn = core.turnstile.try_pass()?;
        let attempt = match database.transact(steps, core.surroundings(), false) {
            Ok(Attempt::Done(outcomes)) => Ok(outcomes),
            Ok(Attempt::TooLong) => return None,
            Err(error) => Err(error),
        };
        core.tend_log(database, turn);
        Some(attempt)
    }

    fn commit_later(&self, steps: Steps) -> Answer<'_, Outcomes> {
        let (reply, outcomes) = oneshot::channel();
        let added = self.lane.add(&self.core, Job::Commit(steps, reply));
        Box::pin(async move {
            added?;
            outcomes.await.unwrap_or_else(|_| Err(ended()))
        })
    }

    fn later(&self, job: Job) {
        if let Err(error) = self.lane.add(&self.core, job) {
            tracing::warn!(%error, "the embedded store could not tidy up");
        }
    }

    /// A look, on the lane.
    fn read_later<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Core, &Database) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        let (reply, answer) = oneshot::channel();
        let job = move |core: &Core| {
            let database = core.database();
            database.wait_for_locks(PATIENCE);
            let answer = read(core, &database);
            database.wait_for_locks(std::time::Duration::ZERO);
            // Whoever asked may be gone.
            let _ = reply.send(answer);
        };
        let added = self.lane.add(&self.core, Job::Read(Box::new(job)));
        Box::pin(async move {
            added?;
            answer.await.unwrap_or_else(|_| Err(ended()))
        })
    }
}

fn ended() -> Error {
    Error::ambiguous("the thread of the embedded store ended early", "look at the lease before trying again")
}

impl Core {
    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings { clock: &*self.clock, mailbox: &self.mailbox }
    }

    /// A panic leaves no transaction open, so that it does not spoil the connection.
    fn database(&self) -> MutexGuard<'_, Database> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_database(&self) -> Option<MutexGuard<'_, Database>> {
        match self.database.try_lock() {
            Ok(database) => Some(database),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// On the lane's thread: waits for its turn.
    fn commit_patiently(self: &Arc<Self>, steps: &[(Name, Command)]) -> Result<Outcomes, Error> {
        self.place.require_unmoved()?;
        let turn = self.turnstile.pass();
        // Who renews is here to stay, and wants to be told when its lease is broken.
        if steps.iter().any(|(_, command)| matches!(command, Command::Renew(_))) {
            self.mailbox.open();
        }
        let mut database = self.database();
        database.wait_for_locks(PATIENCE);
        let attempt = database.require_newest().and_then(|()| database.transact(steps, self.surroundings(), true));
        database.wait_for_locks(std::time::Duration::ZERO);
        self.tend_log(database, turn);
        match attempt? {
            Attempt::Done(outcomes) => Ok(outcomes),
            Attempt::TooLong => Err(Error::internal("a patient step was not waited for")),
        }
    }

    /// On the lane's thread: tells those who are to be woken, since whoever asked for the step may not go on for long.
    /// Hints for which a receiver has no room yet are added to `unread`.
    fn deliver(self: &Arc<Self>, name: &Name, wakes: Vec<Wake>, unread: &mut Vec<(ClientId, Vec<u8>)>) {
        let mut round = Round::new(wakes);
        while let Some(silence) = round.next_gone(|wake| match self.mailbox.send(name, wake) {
            Sent::Perhaps => Delivery::Sent,
            Sent::Nobody => Delivery::Nobody,
            Sent::Full(letter) => {
                unread.push((wake.client, letter));
                Delivery::Sent
            }
        }) {
            let step = [(name.clone(), Command::Silence(silence))];
            let silenced = self.commit_patiently(&step).and_then(|mut outcomes| {
                outcomes.pop().unwrap_or_else(|| Err(Error::internal("a step came to nothing")))
            });
            round.go_on(name, silenced);
        }
    }

    /// After a commit.
    fn tend_log(self: &Arc<Self>, mut database: MutexGuard<'_, Database>, turn: Turn<'_>) {
        if !database.log_is_long() {
            return;
        }
        if database.is_settled() {
            drop((database, turn));
            Caretaker::start(self);
        } else {
            database.cut_log();
        }
    }

    fn cut_log_at_end(&self) {
        if let Some(_turn) = self.turnstile.try_pass() {
            self.database().cut_log_at_end();
        }
    }
}

impl Registers for Sqlite {
    fn promises(&self) -> Promises {
        Promises::ALL
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn client(&self) -> Option<ClientId> {
        (!self.core.mailbox.is_barred()).then(|| self.core.mailbox.client())
    }

    fn commit(&self, steps: Vec<(Name, Command)>, patient: bool) -> Answer<'_, Vec<Result<Applied, Error>>> {
        if !patient && let Some(outcomes) = self.commit_at_once(&steps) {
            return Box::pin(std::future::ready(outcomes));
        }
        self.commit_later(steps)
    }

    fn inspect<'a>(&'a self, name: &'a Name) -> Answer<'a, LeaseView> {
        // At once, if nobody else uses the connection and SQLite need not wait for a lock.
        if let Some(database) = self.core.try_database() {
            let answer = database.inspect(name, &*self.core.clock);
            if !answer.as_ref().is_err_and(Error::is_transient) {
                return Box::pin(std::future::ready(answer));
            }
        }
        let name = name.clone();
        self.read_later(move |core, database| database.inspect(&name, &*core.clock))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<LeaseView>> {
        // There may be many of them to read.
        let prefix = prefix.to_owned();
        self.read_later(move |core, database| database.list(&prefix, &*core.clock))
    }

    fn send(&self, name: &Name, wake: &Wake) -> Delivery {
        match self.core.mailbox.send(name, wake) {
            Sent::Perhaps => Delivery::Sent,
            Sent::Nobody => Delivery::Nobody,
            Sent::Full(letter) => {
                self.later(Job::Post(wake.client, letter));
                Delivery::Sent
            }
        }
    }

    fn next_hint(&self) -> Answer<'_, Hint> {
        Box::pin(self.core.mailbox.next())
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // If the connection is in use, somebody may be about to wait.
        let waiters_left = self.core.try_database().is_none_or(|database| database.anyone_waits());
        self.core.mailbox.close(waiters_left);
    }
}
