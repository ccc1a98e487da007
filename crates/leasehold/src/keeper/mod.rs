//! Keeps every lease of a client alive, and tells each holder in time when it cannot.
//!
//! One thread for each client, with a runtime of its own, so that an application whose executor is busy or blocked does
//! not lose its leases. Whatever the number of leases and waiters there is one timer: an [`Agenda`] says what is next.
//!
//! * `held.rs`: a lease as the keeper sees it: its deadline, and who is told of its loss.
//! * `agenda.rs`: what is due when.
//! * `alarm.rs`: waiting for a time, or for news.
//! * `rounds.rs`: what the thread does: renew, tell, release.

mod agenda;
mod alarm;
mod held;
mod rounds;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use agenda::Agenda;
pub(crate) use alarm::{Alarm, Ring};
pub(crate) use held::{Held, Terms, falls_short};
use tokio::sync::Notify;

use crate::{
    clock::{Clock, Moment},
    engine::{Leave, Release, Span},
    entropy::Entropy,
    error::{Error, Loss},
    name::Name,
    store::Store,
};

/// The handle of the thread. Dropped, it lets the thread finish its errands and end.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    starting: Mutex<()>,
}

/// What the thread and its client have in common.
#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    agenda: Mutex<Agenda>,
    state: AtomicU8,
    /// Something is due earlier than the thread believes.
    rouse: Notify,
    /// An errand is done.
    idle: Notify,
}

/// There was nothing to do yet.
const IDLE: u8 = 0;
/// The thread runs.
const RUNNING: u8 = 1;
/// The thread ended by a bug: every lease was lost, and nothing can be kept any more.
const FALLEN: u8 = 2;

impl Shared {
    /// No change of the agenda is left half done, so a panic elsewhere does not spoil it.
    fn agenda(&self) -> MutexGuard<'_, Agenda> {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rouses the thread if `at` is earlier than what it sleeps for.
    fn rouse_for(&self, agenda: MutexGuard<'_, Agenda>, at: Moment) {
        let early = at < agenda.sleeping_until;
        drop(agenda);
        if early {
            self.rouse.notify_one();
        }
    }
}

/// What the keeper does for one that cannot wait for the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Errand {
    /// For a lease that was dropped.
    Release(Release),
    /// For an acquisition that was dropped or gave up.
    Leave(Leave),
}

impl Keeper {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        let (rouse, idle) = (Notify::new(), Notify::new());
        let state = AtomicU8::new(IDLE);
        let shared = Shared { store, clock, entropy, agenda: Mutex::default(), state, rouse, idle };
        Self { shared: Arc::new(shared), starting: Mutex::default() }
    }

    /// Starts the thread, the first time that there is something to do. To be asked before anything is taken that would
    /// have to be kept.
    pub(crate) fn ready(&self) -> Result<(), Error> {
        match self.shared.state.load(Ordering::Acquire) {
            RUNNING => Ok(()),
            FALLEN => Err(Error::internal("the thread that keeps leases ended early")),
            _ => self.start(),
        }
    }

    fn start(&self) -> Result<(), Error> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.state.load(Ordering::Acquire) != IDLE {
            return self.ready();
        }
        let start = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
            let timer = {
                let _inside = runtime.enter();
                self.shared.clock.timer()?
            };
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("leasehold".into());
            thread.spawn(move || rounds::run(&runtime, timer, &shared))
        };
        start().map_err(|error: std::io::Error| {
            Error::unavailable(
                "the system has no thread or descriptor left to keep leases with",
                "end something else, or raise the limits (ulimit -n, ulimit -u)",
            )
            .because(error)
        })?;
        self.shared.state.store(RUNNING, Ordering::Release);
        Ok(())
    }

    /// Keeps a lease from now on.
    pub(crate) fn keep(&self, held: &Arc<Held>) {
        if self.ready().is_err() {
            return held.lose(Loss::Expired);
        }
        let at = held.first_due();
        let mut agenda = self.shared.agenda();
        let slot = agenda.add_lease(held.clone(), at);
        held.set_slot(slot);
        self.shared.rouse_for(agenda, at);
    }

    /// Keeps a lease no longer; whoever waits for its loss is told `loss`, unless it was lost before.
    ///
    /// Says whether a renewal is unanswered, so that a late one may still arrive.
    pub(crate) fn dismiss(&self, held: &Arc<Held>, loss: Loss) -> bool {
        let unanswered = self.shared.agenda().remove_lease(held);
        held.lose(loss);
        unanswered
    }

    /// Carries out an errand in the background, trying again until `until`.
    pub(crate) fn send(&self, name: Name, errand: Errand, until: Moment) {
        if let Err(error) = self.ready() {
            tracing::warn!(%name, %error, "cannot be given back, and is left to expire");
            return;
        }
        let mut agenda = self.shared.agenda();
        agenda.errands.push((name, errand, until));
        agenda.errands_open += 1;
        self.shared.rouse_for(agenda, Moment::EARLIEST);
    }

    /// Ends when every errand is done.
    pub(crate) async fn errands_done(&self) {
        loop {
            let mut done = std::pin::pin!(self.shared.idle.notified());
            // From here on no errand's end is missed.
            done.as_mut().enable();
            if self.shared.agenda().errands_open == 0 {
                return;
            }
            done.await;
        }
    }

    /// An alarm on the keeper's timer, which must be [`ready`](Self::ready).
    pub(crate) fn alarm(&self) -> Alarm<'_> {
        Alarm::new(&self.shared)
    }

    /// The store heard a waiter of ours at `at`: that counts for all that wait for this name.
    pub(crate) fn heard(&self, name: &Name, at: Moment) {
        self.shared.agenda().heard(name, at);
    }

    /// When the store last heard a waiter of ours for this name.
    pub(crate) fn last_heard(&self, name: &Name) -> Option<Moment> {
        self.shared.agenda().last_heard(name)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.agenda().closing = true;
        self.shared.rouse.notify_one();
    }
}

/// How much of a term the holder must not rely on: 1 % for clocks that run at different speeds, 2 ms for their grain.
pub(crate) fn margin(term: Duration) -> Duration {
    term / 100 + Duration::from_millis(2)
}

/// Until when a holder may rely on what the store reported, by its own clock. `sent` is from just before the request,
/// so that the time on the way is ours to lose.
pub(crate) fn deadline(sent: Moment, left: Option<Duration>, term: Span) -> Moment {
    match left {
        None => Moment::NEVER,
        Some(left) => sent + left - margin(term.duration().unwrap_or(left)),
    }
}
