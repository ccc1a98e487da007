//! Stores that can change one record atomically: the engine does the rest.
//!
//! A mutex, a row lock or a compare-and-swap is enough to be a store: implement [`Registers`] and wrap it in a
//! [`RegisterStore`].

use std::{fmt, time::Duration};

use crate::{
    clock::Clock,
    engine::{self, Applied, Command, Evidence, HoldReply, Left, Renew, Reply, Request, Silence, Stamp, Term, Wake},
    error::Error,
    id::ClientId,
    name::Name,
    store::{Answer, Hint, Promises, Store},
    view::LeaseView,
};

/// A store that can change one record atomically.
pub trait Registers: fmt::Debug + Send + Sync {
    /// See [`Store::promises`].
    fn promises(&self) -> Promises;

    /// See [`Store::fingerprint`].
    fn fingerprint(&self) -> &str;

    /// See [`Store::client`].
    fn client(&self) -> Option<ClientId>;

    /// For each step: loads the record, gives it to [`engine::apply`], and writes it if it changed. What one step wrote
    /// is seen by those after it. The outer error means that nothing was written, or that nobody knows.
    ///
    /// `patient` steps are off the caller's hot path and may be carried out on another thread. Hints that were sent
    /// there, so that they do not wait for the caller to go on, are no longer among the wakes of what is returned.
    fn commit(&self, steps: Vec<(Name, Command)>, patient: bool) -> Answer<'_, Vec<Result<Applied, Error>>>;

    /// See [`Store::inspect`].
    fn inspect<'a>(&'a self, name: &'a Name) -> Answer<'a, LeaseView>;

    /// See [`Store::list`].
    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<LeaseView>>;

    /// Sends a hint, without waiting for anything.
    fn send(&self, name: &Name, wake: &Wake) -> Delivery;

    /// See [`Store::next_hint`].
    fn next_hint(&self) -> Answer<'_, Hint>;
}

/// What became of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is on its way, or nobody can tell.
    Sent,
    /// Nobody receives there: that client is gone.
    Nobody,
}

/// A [`Store`] made of [`Registers`] and the engine.
#[derive(Debug)]
pub struct RegisterStore<R>(pub(super) R);

impl<R: Registers> RegisterStore<R> {
    /// Wraps the registers.
    pub fn new(registers: R) -> Self {
        Self(registers)
    }

    /// One step, its hints sent, and nobody dead left in the way of the living.
    async fn step(&self, name: &Name, command: Command, patient: bool) -> Result<Reply, Error> {
        let applied = self.commit_one(name, command, patient).await?;
        if !applied.wakes.is_empty() {
            self.deliver(name, applied.wakes, patient).await;
        }
        Ok(applied.reply)
    }

    async fn commit_one(&self, name: &Name, command: Command, patient: bool) -> Result<Applied, Error> {
        let applied = self.0.commit(vec![(name.clone(), command)], patient).await?.pop();
        applied.ok_or_else(|| Error::internal("a store answered nothing to a step"))?
    }

    async fn deliver(&self, name: &Name, wakes: Vec<Wake>, patient: bool) {
        let mut round = Round::new(wakes);
        while let Some(silence) = round.next_gone(|wake| self.0.send(name, wake)) {
            round.go_on(name, self.commit_one(name, Command::Silence(silence), patient).await);
        }
    }
}

/// Hints about one name on their way. A client that nobody receives for is silenced at once, so that its turn goes to
/// the next; that may wake others, which may be dead too.
#[derive(Debug)]
pub(super) struct Round {
    wakes: Vec<Wake>,
    silenced: Vec<ClientId>,
}

impl Round {
    pub(super) fn new(wakes: Vec<Wake>) -> Self {
        Self { wakes, silenced: Vec::new() }
    }

    /// Sends until a client turns out to be gone. What is to be done about that goes to [`Round::go_on`].
    pub(super) fn next_gone(&mut self, mut send: impl FnMut(&Wake) -> Delivery) -> Option<Silence> {
        while let Some(wake) = self.wakes.pop() {
            let known = self.silenced.contains(&wake.client);
            let done = if known { wake.news.offer().is_none() } else { send(&wake) == Delivery::Sent };
            if !done {
                self.silenced.push(wake.client);
                return Some(Silence { client: wake.client, offer: wake.news.offer() });
            }
        }
        None
    }

    pub(super) fn go_on(&mut self, name: &Name, silenced: Result<Applied, Error>) {
        match silenced {
            Ok(applied) => {
                tracing::debug!(%name, "a waiter is gone: passed over");
                self.wakes.extend(applied.wakes);
            }
            // The claim window of the offer, or the next heartbeat of a living waiter, does the same later.
            Err(error) => tracing::warn!(%name, %error, "a dead waiter could not be passed over yet"),
        }
    }
}

impl<R: Registers> Store for RegisterStore<R> {
    fn promises(&self) -> Promises {
        self.0.promises()
    }

    fn fingerprint(&self) -> &str {
        self.0.fingerprint()
    }

    fn client(&self) -> Option<ClientId> {
        self.0.client()
    }

    fn apply<'a>(&'a self, name: &'a Name, command: Command) -> Answer<'a, Reply> {
        Box::pin(self.step(name, command, false))
    }

    fn apply_patiently<'a>(&'a self, name: &'a Name, command: Command) -> Answer<'a, Reply> {
        Box::pin(self.step(name, command, true))
    }

    fn renew_all(&self, renewals: Vec<(Name, Renew)>) -> Answer<'_, Vec<Result<HoldReply, Error>>> {
        Box::pin(async move {
            let names: Vec<Name> = renewals.iter().map(|(name, _)| name.clone()).collect();
            let steps = renewals.into_iter().map(|(name, renew)| (name, renew.into())).collect();
            let applied = self.0.commit(steps, true).await?;
            let mut replies = Vec::with_capacity(applied.len());
            for (name, applied) in names.iter().zip(applied) {
                match applied {
                    Ok(applied) => {
                        self.deliver(name, applied.wakes, true).await;
                        replies.push(Renew::reply(applied.reply));
                    }
                    Err(error) => replies.push(Err(error)),
                }
            }
            Ok(replies)
        })
    }

    fn inspect<'a>(&'a self, name: &'a Name) -> Answer<'a, LeaseView> {
        self.0.inspect(name)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<LeaseView>> {
        self.0.list(prefix)
    }

    fn next_hint(&self) -> Answer<'_, Hint> {
        self.0.next_hint()
    }
}

/// The evidence of a store whose users share one clock that only runs forward.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedClock {
    /// Microseconds on that clock.
    now: u64,
    wall_ms: u64,
    floor: u64,
    /// The record is of an earlier run of that clock, so that whatever has an end has ended.
    stale: bool,
}

impl SharedClock {
    pub(crate) fn read(clock: &dyn Clock, floor: u64) -> Self {
        Self { now: clock.now().nanos() / 1000, wall_ms: clock.wall_ms(), floor, stale: false }
    }

    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "memory has one run only"))]
    pub(crate) fn stale(self, stale: bool) -> Self {
        Self { stale, ..self }
    }
}

impl Evidence for SharedClock {
    fn now(&self) -> Stamp {
        Stamp(self.now)
    }

    fn left(&self, term: &Term) -> Left {
        let Some(span) = term.span.duration() else { return Left::Forever };
        if self.stale {
            return Left::Over;
        }
        match span.checked_sub(self.since(term.start)) {
            None | Some(Duration::ZERO) => Left::Over,
            Some(left) => Left::For(left),
        }
    }

    fn since(&self, stamp: Stamp) -> Duration {
        Duration::from_micros(self.now.saturating_sub(stamp.0))
    }

    fn wall_ms(&self) -> u64 {
        self.wall_ms
    }

    fn fence_floor(&self) -> u64 {
        self.floor
    }
}

/// [`engine::view`] if there is anything to see.
pub(crate) fn visible(name: &Name, record: &engine::Record, evidence: &dyn Evidence) -> Option<LeaseView> {
    let view = engine::view(name, record, evidence);
    (!view.holders.is_empty() || view.queue.as_ref().is_some_and(|queue| !queue.is_empty())).then_some(view)
}

/// Whether nothing in the record counts any more, but for its fence.
pub(crate) fn is_spent(record: &engine::Record, evidence: &dyn Evidence) -> bool {
    let over = |term| evidence.left(term).is_over();
    record.holders.iter().all(|holder| {
        let returns = holder.rare.as_ref().and_then(|rare| rare.offered_to.as_ref());
        over(&holder.term) && returns.is_none_or(|waiter| over(&waiter.term))
    }) && record.queue.iter().all(|waiter| over(&waiter.term))
        && record.tombstones.iter().all(|tombstone| over(&tombstone.term))
}
