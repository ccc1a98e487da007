//! What a store keeps for one name.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    id::{AttemptId, ClientId},
    ttl::Ttl,
    view::Phase,
};

/// A point on the store's own clock, or its count of writes: the engine only hands it back to the [`Evidence`].
///
/// [`Evidence`]: super::Evidence
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp(pub u64);

/// A length of time in milliseconds, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span(u64);

impl Span {
    /// For ever.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// `None` if it never ends.
    pub fn duration(self) -> Option<Duration> {
        (self != Self::NEVER).then(|| Duration::from_millis(self.0))
    }

    /// The longer by `extra`.
    #[must_use]
    pub fn plus(self, extra: Duration) -> Self {
        match self.duration() {
            Some(span) => (span + extra).into(),
            None => Self::NEVER,
        }
    }
}

/// Rounds up, so that no part of a promise is lost to the grain.
impl From<Duration> for Span {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_micros().div_ceil(1000)).unwrap_or(u64::MAX))
    }
}

impl From<Ttl> for Span {
    fn from(ttl: Ttl) -> Self {
        match ttl {
            Ttl::For(span) => span.into(),
            Ttl::Never => Self::NEVER,
        }
    }
}

impl From<Span> for Ttl {
    fn from(span: Span) -> Self {
        span.duration().map_or(Self::Never, Self::For)
    }
}

/// A length of time that began at a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// Where it began.
    pub start: Stamp,
    /// How long it lasts.
    pub span: Span,
}

/// Who holds or waits, for people to read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Who {
    /// Such as `user@host:pid`.
    pub owner: Arc<str>,
    /// Why.
    pub reason: Option<Arc<str>>,
}

/// All that is known of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The last fence that was given or used up. Only grows.
    pub fence: u64,
    /// The permits that its holders share, as the first of them said: 1 for a lock.
    pub capacity: u32,
    /// Whom it is granted to.
    pub holders: Vec<Holder>,
    /// Who waits, by [`Waiter::place`].
    pub queue: VecDeque<Waiter>,
    /// The place of the next waiter. Only grows: one that returns from an offer must find its old place in front.
    pub next_place: u64,
    /// Attempt ids that are refused, because whoever had them is gone.
    pub tombstones: Vec<Tombstone>,
}

/// One grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The secret.
    pub id: AttemptId,
    /// The number that only grows.
    pub fence: u64,
    /// How many permits it has.
    pub permits: u32,
    /// How often the lease was attached to: the orchestrator of an earlier tenure is overtaken.
    pub tenure: u32,
    /// Where it stands.
    pub phase: Phase,
    /// What each renewal gives.
    pub ttl: Span,
    /// What it has now.
    pub term: Term,
    /// Where it can be told, if it can.
    pub client: Option<ClientId>,
    /// For people: milliseconds since 1970.
    pub acquired_at_ms: u64,
    /// For people.
    pub who: Arc<Who>,
    /// What few holders have, apart so that the many stay small.
    pub rare: Option<Box<Rare>>,
}

/// What few holders have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rare {
    /// It ends with this, however often it is renewed.
    pub max_hold: Option<Term>,
    /// While it is offered: the waiter it is offered to, which returns to its place if it does not answer.
    pub offered_to: Option<Waiter>,
    /// While it is offered: the reply to a claim told of it, so that it is relied on until its claim window ends.
    pub seen: bool,
    /// The attempt id that handed it over.
    pub from: Option<AttemptId>,
    /// The work it is for: who names it may attach.
    pub work: Option<Arc<str>>,
    /// The claim that attached last, so that it may arrive twice.
    pub attached_by: Option<AttemptId>,
}

/// One in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The secret of its attempt.
    pub id: AttemptId,
    /// Its place: smaller is earlier.
    pub place: u64,
    /// How many permits it wants.
    pub permits: u32,
    /// What it wants to be granted.
    pub ttl: Span,
    /// How long an offer waits for it.
    pub window: Span,
    /// Its place is kept so long without hearing from it.
    pub term: Term,
    /// When it came.
    pub since: Stamp,
    /// Where it is woken.
    pub client: Option<ClientId>,
    /// Passed over, since its client did not answer, until that is heard again.
    pub parked: bool,
    /// Passed over, since it did not answer an offer itself: that its client lives says nothing about it.
    pub lapsed: bool,
    /// See [`Rare::max_hold`].
    pub max_hold: Option<Span>,
    /// See [`Rare::work`].
    pub work: Option<Arc<str>>,
    /// For people.
    pub who: Arc<Who>,
}

/// An attempt id that is refused from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// Which.
    pub id: AttemptId,
    /// Why.
    pub end: End,
    /// How long it is remembered.
    pub term: Term,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Its owner gave up waiting.
    Left,
    /// Its owner released it.
    Released,
    /// An operator broke it.
    Broken,
    /// Its lease was handed over, or attached to by another.
    Overtaken,
}

impl Record {
    /// Whether nothing but the fence is worth keeping.
    pub fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty() && self.tombstones.is_empty()
    }

    pub(super) fn holder(&self, id: AttemptId) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.id == id)
    }

    pub(super) fn tombstone(&self, id: AttemptId) -> Option<&Tombstone> {
        self.tombstones.iter().find(|tombstone| tombstone.id == id)
    }

    pub(super) fn permits_used(&self) -> u32 {
        self.holders.iter().map(|holder| holder.permits).sum()
    }
}
