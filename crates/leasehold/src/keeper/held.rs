//! A lease as the keeper sees it.

use std::{
    num::NonZeroU64,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::deadline;
use slab::Slab;

use crate::{
    clock::Moment,
    engine::{Renew, Span},
    error::Loss,
    id::AttemptId,
    name::Name,
};

/// How often a lease that never expires is looked at, to learn that it was broken.
const LOOK: Duration = Duration::from_secs(10);

/// One lease. There may be a hundred thousand of these, so it is small.
#[derive(Debug)]
pub(crate) struct Held {
    terms: Terms,
    deadline: AtomicU64,
    slot: AtomicU32,
    /// How it was lost, if it was.
    state: AtomicU8,
    /// It was last given less than its ttl, since it may not be held for longer.
    capped: AtomicBool,
    company: OnceLock<Box<Company>>,
}

/// What only a lease that someone looks after has.
#[derive(Debug, Default)]
struct Company {
    progress: OnceLock<Progress>,
    watchers: Mutex<Slab<Waker>>,
}

/// What is settled when a lease begins.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a grant")]
pub(crate) struct Terms {
    pub(crate) name: Name,
    pub(crate) id: AttemptId,
    pub(crate) fence: u64,
    pub(crate) ttl: Span,
    /// See [`Renew::tenure`].
    pub(crate) tenure: Option<u32>,
    /// See [`Renew::not_after_ms`].
    pub(crate) not_after_ms: Option<NonZeroU64>,
    /// Whether the keeper renews it, or only watches its deadline.
    pub(crate) renewed: bool,
    /// Only the claim window was given: the first renewal is urgent.
    pub(crate) offered: bool,
    /// A claim for it had no answer, and may still arrive.
    pub(crate) unanswered: bool,
    /// Another may take it over with the same attempt id.
    pub(crate) attachable: bool,
    /// When the grant was received.
    pub(crate) granted: Moment,
}

/// The sign of life that a program gives, without which its lease is not renewed.
#[derive(Debug)]
struct Progress {
    within: Duration,
    last: AtomicU64,
}

impl std::ops::Deref for Held {
    type Target = Terms;
    fn deref(&self) -> &Terms {
        &self.terms
    }
}

impl Held {
    pub(crate) fn new(terms: Terms, deadline: Moment, capped: bool) -> Self {
        Self {
            terms,
            deadline: AtomicU64::new(deadline.nanos()),
            slot: AtomicU32::new(u32::MAX),
            state: AtomicU8::new(KEPT),
            capped: AtomicBool::new(capped),
            company: OnceLock::new(),
        }
    }

    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// A renewal that was sent at `sent` came through. A deadline that has passed is final, whatever the store says
    /// later.
    pub(crate) fn extend(&self, now: Moment, sent: Moment, left: Option<Duration>) {
        if now < self.deadline() && self.loss().is_none() {
            self.deadline.fetch_max(deadline(sent, left, self.ttl).nanos(), Ordering::AcqRel);
            self.capped.store(falls_short(left, self.ttl), Ordering::Release);
        }
    }

    /// How it is lost when its deadline passes.
    pub(crate) fn lapse(&self, now: Moment) -> Loss {
        if self.is_stalled(now) {
            Loss::Stalled
        } else if self.capped.load(Ordering::Acquire) {
            Loss::Capped
        } else {
            Loss::Expired
        }
    }

    fn company(&self) -> &Company {
        self.company.get_or_init(Box::default)
    }

    /// The request that renews it.
    pub(crate) fn renewal(&self) -> Renew {
        Renew {
            id: self.id,
            fence: self.fence,
            tenure: self.tenure,
            not_after_ms: self.not_after_ms.map(NonZeroU64::get),
        }
    }

    /// When to look at it first: for a renewal, or its end.
    pub(super) fn first_due(&self) -> Moment {
        if !self.renewed {
            return self.deadline();
        }
        match self.ttl.duration() {
            _ if self.offered => self.granted + self.deadline().since(self.granted) / 3,
            Some(ttl) => (self.granted + ttl / 3).min(self.deadline()),
            None => (self.granted + LOOK).min(self.deadline()),
        }
    }

    /// When to renew next after a renewal that was sent at `sent`. Rounded down to a sixteenth of the interval, so that
    /// renewals of many leases fall due together and go out together.
    pub(super) fn next_due(&self, sent: Moment) -> Moment {
        let interval = self.ttl.duration().map_or(LOOK, |ttl| ttl / 3);
        let grain = u64::try_from((interval / 16).as_nanos()).unwrap_or(u64::MAX).max(1);
        let due = (sent + interval).nanos();
        Moment::from_nanos(due - due % grain).min(self.deadline())
    }

    /// How long a renewal may take before another is sent.
    pub(super) fn answer_time(&self) -> Duration {
        self.ttl.duration().map_or(LOOK, |ttl| ttl / 6)
    }
}

// Progress.
impl Held {
    /// From now on it is renewed only while [`tick`](Self::tick) is called `within` this time.
    pub(crate) fn expect_progress(&self, within: Duration, now: Moment) {
        self.company().progress.get_or_init(|| Progress { within, last: AtomicU64::new(now.nanos()) });
    }

    fn progress(&self) -> Option<&Progress> {
        self.company.get()?.progress.get()
    }

    pub(crate) fn tick(&self, now: Moment) {
        if let Some(progress) = self.progress() {
            progress.last.fetch_max(now.nanos(), Ordering::Relaxed);
        }
    }

    pub(super) fn is_stalled(&self, now: Moment) -> bool {
        self.progress().is_some_and(|progress| {
            now.since(Moment::from_nanos(progress.last.load(Ordering::Relaxed))) > progress.within
        })
    }
}

/// Whether a renewal gave less than the whole ttl: what it may be held for ends with it.
pub(crate) fn falls_short(left: Option<Duration>, ttl: Span) -> bool {
    left.is_some_and(|left| ttl.duration().is_none_or(|ttl| left < ttl))
}

const KEPT: u8 = 0;
const LOSSES: [Loss; 6] = [Loss::Expired, Loss::Broken, Loss::Overtaken, Loss::Released, Loss::Capped, Loss::Stalled];

// Loss.
impl Held {
    pub(crate) fn loss(&self) -> Option<Loss> {
        let state = self.state.load(Ordering::Acquire);
        state.checked_sub(1).and_then(|index| LOSSES.get(usize::from(index)).copied())
    }

    /// It is lost, for the first reason that is given, and whoever waits for that is told.
    pub(crate) fn lose(&self, loss: Loss) {
        let index = LOSSES.iter().position(|known| *known == loss).unwrap_or_default();
        let state = u8::try_from(index + 1).expect("there are few ways to lose");
        if self.state.compare_exchange(KEPT, state, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // With the fence below: either we see the watcher, or it sees the loss.
            fence(Ordering::SeqCst);
            let watchers = self.company.get().map(|company| std::mem::take(&mut *company.watchers()));
            watchers.into_iter().flatten().for_each(|(_, watcher)| watcher.wake());
        }
    }

    /// Waits for its loss.
    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch { held: self, slot: None }
    }
}

/// One who waits for the loss of a lease. Dropped, it is forgotten.
pub(crate) struct Watch<'a> {
    held: &'a Held,
    slot: Option<usize>,
}

impl Watch<'_> {
    /// How it was lost; if it was not, the caller is woken when it is.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<Loss> {
        let mut watchers = self.held.company().watchers();
        fence(Ordering::SeqCst);
        // `lose` sets the state before it takes the watchers, so that one who looks under the lock misses nothing.
        if let Some(loss) = self.held.loss() {
            return Poll::Ready(loss);
        }
        match self.slot.and_then(|slot| watchers.get_mut(slot)) {
            Some(watcher) => watcher.clone_from(context.waker()),
            None => self.slot = Some(watchers.insert(context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.held.company().watchers().try_remove(slot);
        }
    }
}

impl Company {
    fn watchers(&self) -> MutexGuard<'_, Slab<Waker>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Its place in the agenda.
impl Held {
    pub(super) fn set_slot(&self, slot: usize) {
        self.slot.store(u32::try_from(slot).expect("fewer than 2^32 leases"), Ordering::Release);
    }

    pub(super) fn slot(&self) -> usize {
        self.slot.load(Ordering::Acquire) as usize
    }
}
