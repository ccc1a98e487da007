//! What is held.

use std::{
    fmt,
    future::{Future, poll_fn},
    num::NonZeroU64,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use super::Core;
use crate::{
    clock::Moment,
    engine::{HandOver, HandOverReply, HoldReply, Release, ReleaseReply, Span, remembered},
    error::{Error, Loss},
    keeper::{Errand, Held},
    name::Name,
    ticket::{Rights, Ticket},
    ttl::Ttl,
};

/// How long a release or a hand-over is tried when the store does not answer.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long the keeper tries to release what never expires.
const INSISTENCE: Duration = Duration::from_mins(1);

/// A lease that is held: the guard of whatever it protects.
///
/// The keeper renews it from its own thread. Dropped, it is released in the background; [`release`](Self::release)
/// waits for that, and [`Client::close`](crate::Client::close) for all of a client.
#[must_use = "dropping a lease gives it back"]
pub struct Lease {
    core: Arc<Core>,
    held: Arc<Held>,
    asked: Moment,
    min_hold: Span,
    attempts: u32,
    party: Party,
    /// Another process may keep it alive.
    shared: AtomicBool,
}

/// What this process is to the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    /// Gives it back when it is done.
    Owner,
    /// Keeps it alive, and may end it if its ticket says so.
    Sharer { may_release: bool },
    /// Is done with it.
    Gone,
}

impl Lease {
    pub(super) fn new(core: Arc<Core>, held: Held, asked: Moment, attempts: u32, min_hold: Option<Duration>) -> Self {
        Self::kept(core, held, Party::Owner, asked, attempts, min_hold)
    }

    pub(super) fn joined(core: Arc<Core>, held: Held, party: Party) -> Self {
        let asked = held.granted;
        Self::kept(core, held, party, asked, 1, None)
    }

    fn kept(
        core: Arc<Core>,
        held: Held,
        party: Party,
        asked: Moment,
        attempts: u32,
        min_hold: Option<Duration>,
    ) -> Self {
        let held = Arc::new(held);
        core.keeper.keep(&held);
        let min_hold = min_hold.unwrap_or_default().into();
        Self { core, held, asked, min_hold, attempts, party, shared: AtomicBool::new(false) }
    }

    /// The name.
    pub fn name(&self) -> &Name {
        &self.held.name
    }

    /// The number that only grows: give it to the resource, so that it can refuse a holder that was overtaken. `None`
    /// where the store has none.
    pub fn fence(&self) -> Option<u64> {
        self.core.store.promises().fence.then_some(self.held.fence)
    }

    /// What each renewal gives.
    pub fn ttl(&self) -> Ttl {
        self.held.ttl.into()
    }

    /// How often the store was asked.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long it took to get.
    pub fn waited(&self) -> Duration {
        self.held.granted.since(self.asked)
    }

    /// Until when it may be relied on, as things stand; [`Moment::NEVER`] if it never expires.
    pub fn deadline(&self) -> Moment {
        self.held.deadline()
    }

    /// How long it may be relied on, as things stand, by a clock that runs on while the host sleeps; `None` if it never
    /// expires. Zero once it is lost.
    pub fn remaining(&self) -> Option<Duration> {
        if self.loss().is_some() {
            return Some(Duration::ZERO);
        }
        let deadline = self.held.deadline();
        (deadline != Moment::NEVER).then(|| deadline.since(self.core.clock.now()))
    }

    /// Whether it may be relied on now. Local and cheap: ask before each step that matters.
    pub fn is_valid(&self) -> bool {
        self.loss().is_none()
    }

    /// How it was lost, if it was.
    pub fn loss(&self) -> Option<Loss> {
        let now = self.core.clock.now();
        if now >= self.held.deadline() {
            // For good, whatever a renewal that is under way comes to.
            self.held.lose(self.held.lapse(now));
        }
        self.held.loss()
    }

    /// How it would be lost if its deadline passed as things stand: [`Loss::Capped`] if no renewal can move it any more.
    pub fn lapse(&self) -> Loss {
        self.held.lapse(self.core.clock.now())
    }

    /// Ends when the lease is lost, and says how. It always comes, with the network or without, before the store could
    /// grant the name to another.
    pub async fn lost(&self) -> Loss {
        let mut watch = self.held.watch();
        poll_fn(|context| watch.poll(context)).await
    }

    /// Runs `work` until it ends or the lease is lost; then it is dropped where it stands.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let mut work = pin!(work);
        let mut watch = self.held.watch();
        poll_fn(|context| {
            // Loss first: nothing may run on after it, least of all to its end. The clock is asked too, for the
            // keeper's word may be on its way when a paused program wakes up.
            if let Poll::Ready(loss) = watch.poll(context) {
                return Poll::Ready(Err(self.lost_by(loss)));
            }
            if let Some(loss) = self.loss() {
                return Poll::Ready(Err(self.lost_by(loss)));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Renews it now, though the keeper does that by itself.
    pub async fn renew(&self) -> Result<(), Error> {
        if let Some(loss) = self.loss() {
            return Err(self.lost_by(loss));
        }
        let sent = self.core.clock.now();
        match self.core.ask(&self.held.name, self.held.renewal()).await? {
            HoldReply::Held { left } => {
                self.held.extend(self.core.clock.now(), sent, left);
                self.loss().map_or(Ok(()), |loss| Err(self.lost_by(loss)))
            }
            HoldReply::Lost(loss) => {
                self.core.keeper.dismiss(&self.held, loss);
                Err(self.lost_by(loss))
            }
        }
    }

    /// From now on the lease is renewed only while the program gives a sign of life at least every `within`, so that a
    /// program that hangs does not hold for ever.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    ///
    /// let client = leasehold::open("memory:").await?;
    /// let lease = client.lock("crawl")?.acquire().await?;
    /// let progress = lease.while_progress(Duration::from_secs(60));
    /// for page in 0..3 {
    ///     // … fetch the page …
    ///     progress.tick();
    /// }
    /// # lease.release().await?;
    /// # Ok::<(), leasehold::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn while_progress(&self, within: Duration) -> Progress {
        self.held.expect_progress(within, self.core.clock.now());
        Progress { core: self.core.clone(), held: self.held.clone() }
    }

    /// A ticket with which another process keeps this lease alive, with the same fence. Sharers do not exclude each
    /// other; releasing is the owner's word that they have stopped.
    pub fn share(&self, rights: Rights) -> Ticket {
        self.shared.fetch_or(rights.renew, Ordering::Relaxed);
        self.ticket(rights, None)
    }

    /// Stops keeping the lease alive without releasing it: whoever has the ticket is its owner now.
    pub fn detach(mut self) -> Ticket {
        self.core.keeper.dismiss(&self.held, Loss::Released);
        let ticket = self.ticket(Rights::ALL, self.held.tenure);
        self.party = Party::Gone;
        ticket
    }

    fn ticket(&self, rights: Rights, tenure: Option<u32>) -> Ticket {
        Ticket {
            store: self.core.store.fingerprint().to_owned(),
            name: self.held.name.clone(),
            id: self.held.id,
            fence: self.fence(),
            ttl: self.held.ttl.into(),
            not_after_ms: self.held.not_after_ms.map(NonZeroU64::get),
            rights: match self.party {
                Party::Sharer { may_release } => Rights { release: may_release && rights.release, ..rights },
                Party::Owner | Party::Gone => rights,
            },
            tenure,
        }
    }

    /// Hands the lease over for good: the ticket's bearer holds it with a new fence, and this process no longer does,
    /// whatever the answer. If there is none, nobody knows whether the ticket holds: it is lost here, and expires.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lease in the background, unless it was handed over already.
    pub async fn hand_over(mut self) -> Result<Ticket, Error> {
        self.may_end()?;
        self.core.keeper.dismiss(&self.held, Loss::Overtaken);
        let to = self.core.entropy.attempt_id();
        let request = HandOver { id: self.held.id, fence: self.held.fence, tenure: self.held.tenure, to };
        let reply = self.insist(|| self.core.ask(&self.held.name, request)).await;
        // Not earlier: dropped half way, what was not handed over is given back.
        self.party = Party::Gone;
        match reply? {
            HandOverReply::Done { fence, .. } => {
                // The receiver is the orchestrator now, and is overtaken if another attaches.
                let mut ticket = self.ticket(Rights::ALL, Some(0));
                ticket.id = to;
                ticket.fence = ticket.fence.map(|_| fence);
                Ok(ticket)
            }
            HandOverReply::Lost(loss) => Err(self.lost_by(loss)),
        }
    }

    /// Gives it back. `false` if it was no longer held: what it protected may have been touched by another.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the release to the keeper.
    pub async fn release(mut self) -> Result<bool, Error> {
        self.may_end()?;
        let was_lost = self.loss().is_some();
        let release = self.farewell();
        self.party = Party::Gone;
        let mut parting = Parting { lease: &self, release, tries: 0 };
        let reply = self.insist(|| parting.ask()).await;
        let again = parting.tries > 1;
        if reply.is_ok() {
            parting.tries = 0;
        }
        drop(parting);
        match reply? {
            ReleaseReply::Released | ReleaseReply::Already => Ok(!was_lost),
            ReleaseReply::NotHeld(loss) => Ok(again && !was_lost && self.was_released(loss)),
        }
    }

    /// Whether this party may release or hand over.
    fn may_end(&self) -> Result<(), Error> {
        if self.party != (Party::Sharer { may_release: false }) {
            return Ok(());
        }
        Err(Error::invalid(
            format!(
                "this ticket may keep the lease on {} alive, and neither release it nor pass it on",
                self.held.name
            ),
            "drop the lease to stop keeping it alive; its owner releases it",
        ))
    }

    /// Whether a lease that is not held when it is asked for again was released by a try before, whose answer was lost:
    /// then nobody can have ended it before that.
    fn was_released(&self, loss: Loss) -> bool {
        let in_time = self.core.clock.now() < self.held.deadline();
        let by_us = match loss {
            Loss::Expired => true,
            // Another was granted the name since, unless it may have attached before.
            Loss::Overtaken => !self.held.attachable,
            _ => false,
        };
        in_time && by_us
    }

    /// Asks until there is an answer, or it is of no use any more.
    async fn insist<T, A: Future<Output = Result<T, Error>>>(&self, mut ask: impl FnMut() -> A) -> Result<T, Error> {
        let end = self.held.deadline().min(self.core.clock.now() + FAREWELL);
        let mut pause = Duration::from_millis(10);
        loop {
            match ask().await {
                Err(error) if error.is_transient() && self.core.clock.now() < end => {
                    tracing::debug!(name = %self.held.name, %error, "will be tried again");
                }
                Err(error) if error.is_transient() => {
                    return Err(Error::ambiguous(
                        format!("the store did not answer about {}", self.held.name),
                        if self.held.ttl == Span::NEVER {
                            "it never expires: look at its status, and break it if it is still there"
                        } else {
                            "the keeper goes on trying; else the lease expires by itself"
                        },
                    )
                    .because(error));
                }
                reply => return reply,
            }
            self.core.sleep_until(self.core.clock.now() + self.core.entropy.jitter(pause, 0.5)).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Stops the renewing and makes the request that gives it back.
    fn farewell(&self) -> Release {
        let unanswered = self.core.keeper.dismiss(&self.held, Loss::Released);
        let held_for = self.core.clock.now().since(self.held.granted);
        let linger =
            self.min_hold.duration().and_then(|least| least.checked_sub(held_for)).filter(|rest| !rest.is_zero());
        Release {
            id: self.held.id,
            tenure: self.held.tenure,
            linger: linger.map(Span::from),
            // Whoever shares it is told that it was released, and not that it ran out.
            remember: (unanswered || self.held.unanswered || self.shared.load(Ordering::Relaxed))
                .then(|| remembered(self.held.ttl)),
        }
    }

    fn lost_by(&self, loss: Loss) -> Error {
        Error::Lost { name: self.held.name.clone(), loss }
    }
}

/// A release under way. Dropped before there was an answer, it is the keeper's.
struct Parting<'a> {
    lease: &'a Lease,
    release: Release,
    /// Without an answer.
    tries: u32,
}

impl Parting<'_> {
    fn ask(&mut self) -> impl Future<Output = Result<ReleaseReply, Error>> + use<> {
        let request = self.release;
        self.tries += 1;
        // A second try follows one without an answer, which may still arrive.
        self.release.remember = Some(remembered(self.lease.held.ttl));
        let (core, name) = (self.lease.core.clone(), self.lease.held.name.clone());
        async move { core.ask(&name, request).await }
    }
}

impl Drop for Parting<'_> {
    fn drop(&mut self) {
        if self.tries > 0 {
            self.lease.leave_to_keeper(self.release);
        }
    }
}

impl Lease {
    fn leave_to_keeper(&self, release: Release) {
        // What never expires is tried for a while, so that `close` ends.
        let until = match self.held.deadline() {
            Moment::NEVER => self.core.clock.now() + INSISTENCE,
            deadline => deadline,
        };
        self.core.keeper.send(self.held.name.clone(), Errand::Release(release), until);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match self.party {
            Party::Owner => {
                let release = self.farewell();
                self.leave_to_keeper(release);
            }
            Party::Sharer { .. } => {
                self.core.keeper.dismiss(&self.held, Loss::Released);
            }
            Party::Gone => {}
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("name", &self.held.name)
            .field("fence", &self.fence())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// The sign of life of [`Lease::while_progress`].
#[derive(Clone)]
pub struct Progress {
    core: Arc<Core>,
    held: Arc<Held>,
}

impl Progress {
    /// The program is getting on.
    pub fn tick(&self) {
        self.held.tick(self.core.clock.now());
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("name", &self.held.name).finish_non_exhaustive()
    }
}
