//! How a lock is got: claim, wait for a hint or a deadline, claim again with the same attempt id.

use std::{sync::Arc, time::Duration};

use super::{
    Core, Lease,
    lock::{Plan, Waiting},
    no_answer,
};
use crate::{
    clock::Moment,
    engine::{Claim, ClaimReply, Grant, HoldReply, Leave, News, Queued, Queueing, Renew, Span, remembered},
    error::{Contended, Error},
    id::AttemptId,
    keeper::{Alarm, Errand, Held, Ring, Terms, deadline, falls_short},
    view::HolderView,
};

/// How long a silent waiter keeps its place.
const WAITER_TTL: Duration = Duration::from_secs(10);
/// How often a waiter is heard.
const HEARTBEAT: Duration = Duration::from_millis(3333);
/// How long a store that was never reached is tried.
const FIRST_CONTACT: Duration = Duration::from_secs(5);
/// How long the last look may take.
const LAST_LOOK: Duration = Duration::from_millis(250);
/// A term ends on the store's grain of a millisecond.
const GRAIN: Duration = Duration::from_millis(1);

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Now,
    Until(Moment),
    Forever,
}

impl Patience {
    fn end(self) -> Moment {
        match self {
            Self::Now => Moment::EARLIEST,
            Self::Until(at) => at,
            Self::Forever => Moment::NEVER,
        }
    }
}

/// Takes the lock as planned.
pub(super) async fn acquire(core: &Arc<Core>, plan: &Plan, patience: Patience) -> Result<Lease, Error> {
    let mut wait = Wait::new(core, plan, patience);
    loop {
        let sent = core.clock.now();
        let reply = wait.claim().await;
        let hangs = reply.is_none();
        let step = match reply.unwrap_or_else(|| Err(no_answer())) {
            Ok(ClaimReply::Granted(grant)) => match wait.take(sent, grant).await? {
                Some(lease) => return Ok(lease),
                None => continue,
            },
            Ok(ClaimReply::Queued(queued)) => wait.in_queue(queued).await,
            Ok(ClaimReply::Held(holder)) => wait.ask_again(holder).await,
            // Ended by an operator, or given up for dead: stand in line anew.
            Ok(ClaimReply::Gone) => {
                wait.known = false;
                wait.begin_anew()
            }
            Ok(ClaimReply::Mismatch { capacity }) => Err(Error::invalid(
                format!("{} is shared by {capacity} permits by those who use it now", plan.name),
                "use the same number of permits everywhere, or another name",
            )),
            Err(error) => wait.without_store(error).await,
        };
        if let Err(error) = step {
            // A store that hangs gets the farewell in the background.
            let left = if hangs { Ok(()) } else { wait.leave().await };
            return match (error, left) {
                // It went away while we waited: who holds the name by now nobody knows.
                (Error::Contended(_), Err(away)) => Err(away),
                (error, _) => Err(error),
            };
        }
    }
}

/// One acquisition under way. Dropped before it is settled, it leaves the queue in the background.
struct Wait<'a> {
    core: &'a Arc<Core>,
    plan: &'a Plan,
    patience: Patience,
    id: AttemptId,
    alarm: Option<Alarm<'a>>,
    began: Moment,
    attempts: u32,
    holder: Option<HolderView>,
    /// The offer that we were told of.
    told: Option<u64>,
    /// The store answered at least once.
    reached: bool,
    back_off: Duration,
    /// The store may know the attempt id.
    known: bool,
    /// A request has no answer, so that it may still be carried out.
    unanswered: bool,
}

impl<'a> Wait<'a> {
    fn new(core: &'a Arc<Core>, plan: &'a Plan, patience: Patience) -> Self {
        Self {
            core,
            plan,
            patience,
            id: core.entropy.attempt_id(),
            alarm: None,
            began: core.clock.now(),
            attempts: 0,
            holder: None,
            told: None,
            reached: false,
            back_off: Duration::from_millis(25),
            known: false,
            unanswered: false,
        }
    }

    /// By when the store must answer, or it counts as away.
    fn answer_by(&self) -> Moment {
        let now = self.core.clock.now();
        let end = if self.reached { now } else { self.began } + FIRST_CONTACT;
        match self.patience {
            Patience::Now => end,
            // The last look, at the end of our patience, may take a moment.
            _ if self.reached => end.min(self.patience.end().max(now + LAST_LOOK)),
            _ => end.min(self.patience.end()),
        }
    }

    /// `None`: there was no answer in time.
    async fn claim(&mut self) -> Option<Result<ClaimReply, Error>> {
        let Self { core, plan, .. } = *self;
        let queues = self.patience != Patience::Now && plan.retry.is_none();
        if let Err(error) = core.keeper.ready() {
            return Some(Err(error));
        }
        if queues && self.alarm.is_none() {
            let mut alarm = core.keeper.alarm();
            alarm.listen(&plan.name, self.id);
            self.alarm = Some(alarm);
        }
        let sent = core.clock.now();
        let claim = Claim {
            id: self.id,
            permits: 1,
            capacity: 1,
            ttl: plan.ttl.into(),
            max_hold: plan.max_hold.map(Span::from),
            client: core.store.client(),
            told: self.told,
            queue: queues.then(|| Queueing { waiter_ttl: WAITER_TTL.into(), window: plan.claim_window() }),
            work: plan.work.clone(),
            who: plan.who.clone(),
        };
        self.attempts += 1;
        self.known = true;
        // Stays so if this future is dropped at the await; and an earlier claim that had no answer may still arrive
        // after this one's.
        let unanswered = std::mem::replace(&mut self.unanswered, true);
        let reply = core.ask_until(&plan.name, claim, self.answer_by()).await;
        if let Some(Ok(_)) = reply {
            if queues {
                core.keeper.heard(&plan.name, sent);
            }
            self.unanswered = unanswered;
            self.reached = true;
            self.back_off = Duration::from_millis(25);
        }
        reply
    }

    /// The name was granted. `None`: too late to be of use.
    async fn take(&mut self, sent: Moment, grant: Grant) -> Result<Option<Lease>, Error> {
        let Self { core, plan, .. } = *self;
        // One who attaches finds the ttl of another, and what an earlier renewal left over.
        let attached = grant.id != self.id;
        let ttl = grant.ttl;
        let mut offered = grant.offered;
        let mut capped = plan.max_hold.is_some_and(|most| Span::from(most) < ttl) && !offered;
        let mut until = deadline(sent, grant.left, if offered { plan.claim_window() } else { ttl });
        let least = plan.min_validity.filter(|_| !attached).unwrap_or_default();
        let enough = |until: Moment| until == Moment::NEVER || until.since(core.clock.now()) > least;
        // An offer lasts a claim window; who cannot live with that has it renewed before it is given out.
        let confirm = offered && (plan.confirmed || !plan.keep_alive || ttl == Span::NEVER);
        if attached || confirm || !enough(until) {
            let renew = Renew { id: grant.id, fence: grant.fence, tenure: Some(grant.tenure), not_after_ms: None };
            let sent = core.clock.now();
            match core.ask(&plan.name, renew).await {
                Ok(HoldReply::Held { left }) => {
                    capped = falls_short(left, ttl);
                    until = deadline(sent, left, ttl);
                    offered = false;
                }
                Ok(HoldReply::Lost(_)) => until = Moment::EARLIEST,
                // Unknown is neither lost nor held: ask again, with the same attempt id.
                Err(error) => {
                    self.without_store(error).await?;
                    return Ok(None);
                }
            }
        }
        if !enough(until) && grant.offered {
            // The offer lapsed on its way: our place in the queue is still there.
            self.told = None;
            return Ok(None);
        }
        if !enough(until) {
            let late = Error::unavailable(
                format!("the store took too long to grant {} for a ttl of {}", plan.name, plan.ttl),
                "give a longer ttl, or a shorter min_validity",
            );
            self.without_store(late).await?;
            self.begin_anew()?;
            return Ok(None);
        }
        let granted = core.clock.now();
        let terms = Terms {
            name: plan.name.clone(),
            id: grant.id,
            fence: grant.fence,
            ttl,
            tenure: Some(grant.tenure),
            not_after_ms: None,
            renewed: plan.keep_alive,
            offered,
            attachable: plan.work.is_some(),
            unanswered: self.unanswered,
            granted,
        };
        self.known = false;
        tracing::debug!(name = %plan.name, fence = grant.fence, waited = ?granted.since(self.began), "acquired");
        Ok(Some(Lease::new(core.clone(), Held::new(terms, until, capped), self.began, self.attempts, plan.min_hold)))
    }

    async fn in_queue(&mut self, queued: Queued) -> Result<(), Error> {
        let Self { core, plan, .. } = *self;
        let now = core.clock.now();
        self.holder = queued.holder;
        self.tell(Some(queued.position), None);
        let pushed = core.store.client().is_some() && core.store.promises().push;
        // One that cannot be woken must look before an offer to it runs out.
        let heartbeat =
            if pushed { HEARTBEAT } else { plan.claim_window().duration().map_or(HEARTBEAT, |window| window / 3) };
        // An offer whose news was lost comes back only to one that is heard itself.
        let mut turn = now + queued.wake_in.map_or(WAITER_TTL * 2 / 3, |wait| wait + GRAIN);
        loop {
            // One waiter's heartbeat counts for all of this client that wait for the name.
            let beat = core.keeper.last_heard(&plan.name).unwrap_or(now) + heartbeat;
            let end = self.patience.end();
            let alarm = self.alarm.as_mut().expect("whoever queues has set an alarm");
            let ring = alarm.ring(turn.min(beat).min(end)).await;
            core.keeper.ready()?;
            let now = core.clock.now();
            if now >= end {
                return Err(self.contended());
            }
            match ring {
                Ring::News(News::Next { in_ms }) => turn = turn.min(now + Duration::from_millis(in_ms) + GRAIN),
                Ring::News(news) => {
                    self.told = news.offer();
                    return Ok(());
                }
                Ring::Time if now >= turn => return Ok(()),
                Ring::Time => {
                    let beat = core.keeper.last_heard(&plan.name).unwrap_or(Moment::EARLIEST) + heartbeat;
                    if now >= beat {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Not in a queue, because it was not wanted.
    async fn ask_again(&mut self, holder: HolderView) -> Result<(), Error> {
        self.holder = Some(holder);
        let Some(retry) = self.plan.retry else { return Err(self.contended()) };
        let next = self.core.clock.now() + self.core.entropy.jitter(retry.interval, retry.jitter);
        if self.attempts >= retry.attempts || (self.patience != Patience::Forever && next >= self.patience.end()) {
            return Err(self.contended());
        }
        self.tell(None, None);
        self.core.sleep_until(next).await;
        Ok(())
    }

    /// The store could not be asked. Whether it did what was asked is unknown, so the attempt id stays the same.
    async fn without_store(&mut self, error: Error) -> Result<(), Error> {
        let now = self.core.clock.now();
        let end = if self.reached { self.patience.end() } else { self.patience.end().min(self.began + FIRST_CONTACT) };
        if !error.is_transient() || now >= end {
            return Err(error);
        }
        self.tell(None, Some(error.to_string()));
        let pause = self.core.entropy.jitter(self.back_off, 0.5);
        self.back_off = (self.back_off * 2).min(Duration::from_secs(1));
        self.core.sleep_until((now + pause).min(end)).await;
        Ok(())
    }

    /// A new attempt: whatever the old one comes to, it is not ours.
    #[expect(clippy::unnecessary_wraps, reason = "one of several ways to go on")]
    fn begin_anew(&mut self) -> Result<(), Error> {
        self.send_farewell();
        self.id = self.core.entropy.attempt_id();
        self.known = false;
        self.unanswered = false;
        if let Some(alarm) = &mut self.alarm {
            alarm.listen(&self.plan.name, self.id);
        }
        Ok(())
    }

    fn farewell(&self) -> Leave {
        let remember = self.unanswered.then(|| remembered(self.plan.ttl.into()));
        Leave { id: self.id, remember }
    }

    /// Gives up the place in the queue, and whatever was granted meanwhile. If the store does not answer at once, the
    /// keeper goes on trying.
    async fn leave(&mut self) -> Result<(), Error> {
        if !self.known {
            return Ok(());
        }
        let end = self.core.clock.now() + LAST_LOOK;
        let reply = self.core.ask_until(&self.plan.name, self.farewell(), end).await;
        if let Some(Ok(_)) = reply {
            self.known = false;
            return Ok(());
        }
        self.unanswered = true;
        self.send_farewell();
        reply.unwrap_or_else(|| Err(no_answer())).map(|_| ())
    }

    fn send_farewell(&mut self) {
        if std::mem::take(&mut self.known) {
            // Trying longer is of no use: by then the place, and what was granted, has expired.
            let until = self.core.clock.now() + WAITER_TTL + Duration::from_mins(1);
            self.core.keeper.send(self.plan.name.clone(), Errand::Leave(self.farewell()), until);
        }
    }

    fn contended(&self) -> Error {
        Error::Contended(Box::new(Contended {
            name: self.plan.name.clone(),
            holder: self.holder.clone(),
            waited: self.core.clock.now().since(self.began),
            attempts: self.attempts,
        }))
    }

    fn tell(&self, position: Option<u32>, store_away: Option<String>) {
        self.plan.tell(|| Waiting {
            name: self.plan.name.clone(),
            holder: self.holder.clone(),
            position,
            store_away,
            waited: self.core.clock.now().since(self.began),
        });
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.send_farewell();
    }
}
