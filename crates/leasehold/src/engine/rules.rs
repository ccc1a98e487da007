//! The rules themselves: what each command does.

use std::time::Duration;

use super::{
    bad,
    command::{
        Break, BreakReply, Check, Claim, ClaimReply, Command, HandOver, HandOverReply, HoldReply, Leave, LeaveReply,
        News, Release, ReleaseReply, Renew, Reply, Silence, Wake,
    },
    evidence::{Evidence, Left},
    record::{End, Record, Span, Term, Tombstone},
};
use crate::{error::Loss, view::Phase};

/// How long a broken lease that would never expire stays, so that its holder, which looks every 10 s, learns of it.
const BROKEN_NEVER: Span = Span::from_millis(30_000);

/// What a step comes to.
#[derive(Debug, PartialEq, Eq)]
pub struct Applied {
    /// The answer.
    pub reply: Reply,
    /// Whether the record is another now. If not, nothing need be written.
    pub changed: bool,
    /// Whom to tell, once it is written.
    pub wakes: Vec<Wake>,
}

/// One step on one name.
pub fn apply(record: &mut Record, command: &Command, evidence: &dyn Evidence) -> Applied {
    let mut step = Step { record, evidence, changed: false, wakes: Vec::new() };
    let settles = match command {
        Command::Check(_) => bad!(CheckSettles),
        Command::Renew(_) => !bad!(RenewRevives),
        _ => true,
    };
    if settles {
        step.settle();
    }
    let reply = match command {
        Command::Claim(claim) => Reply::Claim(step.claim(claim)),
        Command::Renew(renew) => Reply::Hold(step.renew(renew)),
        Command::Check(check) => Reply::Hold(step.check(*check)),
        Command::Release(release) => Reply::Release(step.release(*release)),
        Command::Leave(leave) => Reply::Leave(step.leave(*leave)),
        Command::HandOver(hand_over) => Reply::HandOver(step.hand_over(*hand_over)),
        Command::Break(request) => Reply::Break(step.break_lease(*request)),
        Command::Silence(silence) => {
            step.silence(*silence);
            Reply::Silence
        }
    };
    if step.changed {
        step.serve(None);
    }
    Applied { reply, changed: step.changed, wakes: step.wakes }
}

/// One step under way.
pub(super) struct Step<'a> {
    pub(super) record: &'a mut Record,
    pub(super) evidence: &'a dyn Evidence,
    pub(super) changed: bool,
    pub(super) wakes: Vec<Wake>,
}

impl Step<'_> {
    fn claim(&mut self, claim: &Claim) -> ClaimReply {
        if self.record.tombstone(claim.id).is_some() {
            return ClaimReply::Gone;
        }
        // It would stand at the head for ever.
        if claim.permits > claim.capacity && !bad!(ImpossibleClaimWaits) {
            return ClaimReply::Mismatch { capacity: claim.capacity };
        }
        self.hear(claim);
        // Whoever is before us comes first, and it may be our own turn.
        self.serve(Some(claim.id));
        if let Some(index) = self.record.holders.iter().position(|holder| holder.id == claim.id)
            && !bad!(ClaimIsNotIdempotent)
        {
            return self.claim_again(index, claim.told);
        }
        if let Some(work) = &claim.work
            && let Some(grant) = self.attach(claim, work)
        {
            return ClaimReply::Granted(grant);
        }
        if self.record.holders.is_empty() && self.record.queue.is_empty() {
            self.record.capacity = claim.capacity;
        } else if self.record.capacity != claim.capacity {
            return ClaimReply::Mismatch { capacity: self.record.capacity };
        }

        if self.record.queue.iter().any(|waiter| waiter.id == claim.id) {
            return ClaimReply::Queued(self.place_of(claim.id));
        }
        let nobody_first = bad!(NewcomerOvertakes) || self.record.queue.iter().all(|waiter| waiter.parked);
        if nobody_first && self.fits(claim.permits) {
            return ClaimReply::Granted(self.grant_newcomer(claim));
        }
        let Some(queueing) = claim.queue else { return self.held() };
        self.enqueue(claim, queueing);
        ClaimReply::Queued(self.place_of(claim.id))
    }

    /// A claim by the attempt id that has it.
    fn claim_again(&mut self, index: usize, told: Option<u64>) -> ClaimReply {
        let holder = &mut self.record.holders[index];
        // Whoever attached is the orchestrator now: the first one must not learn the new tenure.
        if matches!(holder.phase, Phase::Broken | Phase::Lingering) || holder.tenure > 0 {
            return ClaimReply::Gone;
        }
        if holder.phase == Phase::Offered
            && let Some(rare) = &mut holder.rare
            && !rare.seen
            && told != Some(holder.fence)
        {
            rare.seen = true;
            self.changed = true;
        }
        ClaimReply::Granted(self.grant_of(&self.record.holders[index]))
    }

    fn renew(&mut self, renew: &Renew) -> HoldReply {
        let evidence = self.evidence;
        let found = self.record.holders.iter().position(|h| h.id == renew.id && h.fence == renew.fence);
        let Some(index) = found else {
            #[cfg(test)]
            if bad!(RenewCreates) && self.record.holders.is_empty() {
                self.create_by_renewal(renew);
                return HoldReply::Held { left: None };
            }
            return HoldReply::Lost(self.loss_of(renew.id));
        };
        let holder = &mut self.record.holders[index];
        match holder.phase {
            Phase::Broken if !bad!(BrokenRenews) => return HoldReply::Lost(Loss::Broken),
            Phase::Lingering => return HoldReply::Lost(Loss::Released),
            _ => {}
        }
        if renew.tenure.is_some_and(|tenure| tenure != holder.tenure) {
            return HoldReply::Lost(Loss::Overtaken);
        }

        let mut span = holder.ttl;
        let max_hold = holder.rare.as_ref().and_then(|rare| rare.max_hold);
        let caps = [
            max_hold.map(|term| evidence.left(&term)),
            renew.not_after_ms.map(|at| match at.saturating_sub(evidence.wall_ms()) {
                0 => Left::Over,
                left => Left::For(Duration::from_millis(left)),
            }),
        ];
        for cap in caps.into_iter().flatten().filter(|_| !bad!(CapsIgnored)) {
            match cap {
                Left::Over => return HoldReply::Lost(Loss::Capped),
                // Rounded down: the cap itself must not be passed.
                Left::For(left) => span = span.min(Span::from_millis(whole_millis(left))),
                Left::Forever => {}
            }
        }

        if holder.phase == Phase::Offered {
            holder.phase = Phase::Held;
            if let Some(rare) = &mut holder.rare {
                rare.offered_to = None;
                rare.seen = false;
            }
        }
        // A sharer whose ticket ends soon must not shorten what another owner has renewed.
        let shorter = match (evidence.left(&holder.term), span.duration()) {
            (Left::Forever, Some(_)) => true,
            (Left::For(left), Some(new)) => left > new,
            _ => false,
        };
        if !shorter {
            holder.term = Term { start: evidence.now(), span };
        }
        self.changed = true;
        // What another owner has beyond the bearer's own right is not the bearer's to rely on.
        let left = evidence.left(&holder.term).duration();
        let own = renew.not_after_ms.filter(|_| !bad!(NotAfterBindsNobody));
        let own = own.map(|at| Duration::from_millis(at.saturating_sub(evidence.wall_ms())));
        HoldReply::Held { left: [left, own].into_iter().flatten().min() }
    }

    fn check(&self, check: Check) -> HoldReply {
        let holder = self.record.holder(check.id).filter(|holder| holder.fence == check.fence);
        match holder.map(|holder| (holder.phase, self.evidence.left(&holder.term))) {
            None | Some((_, Left::Over)) => HoldReply::Lost(self.loss_of(check.id)),
            Some((Phase::Broken, _)) => HoldReply::Lost(Loss::Broken),
            Some((Phase::Lingering, _)) => HoldReply::Lost(Loss::Released),
            Some((Phase::Held | Phase::Offered, left)) => HoldReply::Held { left: left.duration() },
        }
    }

    fn release(&mut self, release: Release) -> ReleaseReply {
        let mut found = self.record.holders.iter().position(|holder| holder.id == release.id);
        if bad!(ReleaseWithoutCompare) && !self.record.holders.is_empty() {
            found = Some(0);
        }
        let Some(index) = found else {
            let reply = match self.record.tombstone(release.id) {
                Some(Tombstone { end: End::Released, .. }) => return ReleaseReply::Already,
                _ => ReleaseReply::NotHeld(self.loss_of(release.id)),
            };
            // An offer that lapsed went back to the queue; and the claim itself may still be under way.
            if !bad!(ReleaseKeepsPlace) {
                self.unqueue(release.id);
            }
            self.bury(release.id, End::Left, release.remember);
            return reply;
        };
        let now = self.evidence.now();
        let holder = &mut self.record.holders[index];
        if release.tenure.is_some_and(|tenure| tenure != holder.tenure) && !bad!(OvertakenReleases) {
            return ReleaseReply::NotHeld(Loss::Overtaken);
        }
        let attached_by = holder.rare.as_ref().and_then(|rare| rare.attached_by);
        // Who attached cannot know whether requests of the first orchestrator are still under way.
        let remember = release.remember.or_else(|| attached_by.map(|_| remembered(holder.ttl)));
        let reply = if holder.phase == Phase::Lingering {
            ReleaseReply::Already
        } else {
            self.changed = true;
            // Whoever broke it was told when it will be free.
            match release.linger.filter(|_| holder.phase != Phase::Broken && !bad!(LingerFreesAtOnce)) {
                Some(span) => {
                    holder.phase = Phase::Lingering;
                    holder.term = Term { start: now, span };
                    self.tell_next();
                }
                None => drop(self.record.holders.swap_remove(index)),
            }
            ReleaseReply::Released
        };
        for id in [Some(release.id), attached_by].into_iter().flatten() {
            self.bury(id, End::Released, remember);
        }
        reply
    }

    fn leave(&mut self, leave: Leave) -> LeaveReply {
        // What was attached to, or released and lingers, is no longer this attempt's to give back.
        let held =
            |holder: &super::Holder| holder.id == leave.id && holder.tenure == 0 && holder.phase != Phase::Lingering;
        let reply = if self.unqueue(leave.id) {
            LeaveReply::Waiting
        } else if let Some(index) = self.record.holders.iter().position(held) {
            if !bad!(LeaveKeepsGrant) {
                self.record.holders.swap_remove(index);
                self.changed = true;
            }
            LeaveReply::Holding
        } else {
            LeaveReply::Absent
        };
        self.bury(leave.id, End::Left, leave.remember);
        reply
    }

    fn hand_over(&mut self, hand_over: HandOver) -> HandOverReply {
        let evidence = self.evidence;
        if let Some(receiver) = self.record.holder(hand_over.to)
            && receiver.rare.as_ref().is_some_and(|rare| rare.from == Some(hand_over.id))
        {
            return HandOverReply::Done { fence: receiver.fence, left: evidence.left(&receiver.term).duration() };
        }
        let found = self.record.holders.iter().position(|h| h.id == hand_over.id && h.fence == hand_over.fence);
        let Some(index) = found else { return HandOverReply::Lost(self.loss_of(hand_over.id)) };
        // The receiver gave up before this came, or its id is not a new one.
        if self.record.tombstone(hand_over.to).is_some() || self.record.holder(hand_over.to).is_some() {
            return HandOverReply::Lost(self.loss_of(hand_over.to));
        }
        let holder = &self.record.holders[index];
        match holder.phase {
            Phase::Broken => return HandOverReply::Lost(Loss::Broken),
            Phase::Lingering => return HandOverReply::Lost(Loss::Released),
            Phase::Held | Phase::Offered => {}
        }
        if hand_over.tenure.is_some_and(|tenure| tenure != holder.tenure) {
            return HandOverReply::Lost(Loss::Overtaken);
        }
        self.unqueue(hand_over.to);
        let fence = if bad!(HandOverKeepsFence) { hand_over.fence } else { self.next_fence() };
        if !bad!(HandOverForgetsFence) {
            self.record.fence = fence;
        }
        let holder = &mut self.record.holders[index];
        let max_hold = holder.rare.as_ref().and_then(|rare| rare.max_hold);
        let mut span = holder.ttl;
        match max_hold.map(|term| evidence.left(&term)) {
            Some(Left::For(left)) => span = span.min(Span::from_millis(whole_millis(left))),
            Some(Left::Over) => return HandOverReply::Lost(Loss::Capped),
            Some(Left::Forever) | None => {}
        }
        let rare = holder.rare.get_or_insert_default();
        rare.from = Some(hand_over.id);
        rare.offered_to = None;
        rare.seen = false;
        let attached_by = rare.attached_by.take();
        holder.id = hand_over.to;
        holder.fence = fence;
        holder.tenure = 0;
        holder.phase = Phase::Held;
        holder.client = None;
        holder.term = Term { start: evidence.now(), span };
        self.changed = true;
        // A late claim of the giver's must neither queue nor attach to what it gave away.
        let remember = Some(remembered(self.record.holders[index].ttl)).filter(|_| !bad!(GiverReturns));
        for id in [Some(hand_over.id), attached_by].into_iter().flatten() {
            self.bury(id, End::Overtaken, remember);
        }
        HandOverReply::Done { fence, left: span.duration() }
    }

    fn break_lease(&mut self, request: Break) -> BreakReply {
        let found = self.record.holders.iter().position(|h| h.fence == request.fence || bad!(BreakHitsAnyone));
        let Some(index) = found else {
            let newest = self.record.holders.iter().map(|holder| holder.fence).max();
            return match newest {
                Some(fence) if fence > request.fence => BreakReply::Newer { fence },
                _ => BreakReply::NotHeld,
            };
        };
        let evidence = self.evidence;
        let next_fence = self.next_fence();
        let holder = &mut self.record.holders[index];
        let runs_out = matches!(holder.phase, Phase::Broken | Phase::Lingering) && holder.term.span != Span::NEVER;
        if runs_out && !request.now && !bad!(BreakIsNotIdempotent) {
            return BreakReply::Broken { free_in: evidence.left(&holder.term).duration().unwrap_or_default() };
        }
        self.record.fence = next_fence;
        self.changed = true;
        if let Some(client) = holder.client {
            self.wakes.push(Wake { client, id: holder.id, news: News::Broken });
        }
        if request.now {
            let holder = self.record.holders.swap_remove(index);
            let attached_by = holder.rare.as_ref().and_then(|rare| rare.attached_by);
            for id in [Some(holder.id), attached_by].into_iter().flatten() {
                self.bury(id, End::Broken, Some(remembered(holder.ttl)));
            }
            return BreakReply::Broken { free_in: Duration::ZERO };
        }
        holder.phase = Phase::Broken;
        if holder.term.span == Span::NEVER && !bad!(BrokenNeverStays) {
            holder.term = Term { start: evidence.now(), span: BROKEN_NEVER };
        }
        let free_in = evidence.left(&holder.term).duration().unwrap_or_default();
        self.tell_next();
        BreakReply::Broken { free_in }
    }

    /// Passes over all waiters of a client that nobody receives for, and takes back the offer that nobody received.
    fn silence(&mut self, silence: Silence) {
        let unheard = |holder: &super::Holder| {
            let seen = holder.rare.as_ref().is_some_and(|rare| rare.seen);
            holder.phase == Phase::Offered
                && holder.client == Some(silence.client)
                && (bad!(SilenceTakesAll) || (silence.offer == Some(holder.fence) && !seen))
        };
        while let Some(index) = self.record.holders.iter().position(unheard) {
            let holder = self.record.holders.swap_remove(index);
            self.take_back(holder, false);
        }
        self.park(silence.client);
    }
}

#[cfg(test)]
impl Step<'_> {
    /// The mistake of [`Variant::RenewCreates`](super::variants::Variant::RenewCreates).
    fn create_by_renewal(&mut self, renew: &Renew) {
        self.record.holders.push(super::Holder {
            id: renew.id,
            fence: renew.fence,
            permits: 1,
            tenure: 0,
            phase: Phase::Held,
            ttl: Span::from_millis(1000),
            term: Term { start: self.evidence.now(), span: Span::from_millis(1000) },
            client: None,
            acquired_at_ms: 0,
            who: std::sync::Arc::new(super::Who { owner: "".into(), reason: None }),
            rare: None,
        });
        self.changed = true;
    }
}

fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// How long the attempt id of a lease with this ttl is remembered: no request of its can be under way any longer.
pub(crate) fn remembered(ttl: Span) -> Span {
    const LATEST: Duration = Duration::from_mins(1);
    if ttl == Span::NEVER { LATEST.into() } else { ttl.plus(LATEST) }
}
