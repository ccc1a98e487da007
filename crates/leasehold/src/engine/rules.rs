//! The rules themselves.

use std::{sync::Arc, time::Duration};

use super::{
    bad,
    command::{
        Break, BreakReply, Check, Claim, ClaimReply, Command, Grant, HandOver, HandOverReply, HoldReply, Leave,
        LeaveReply, News, Queued, Queueing, Release, ReleaseReply, Renew, Reply, Wake,
    },
    evidence::{Evidence, Left},
    record::{End, Holder, Rare, Record, Span, Term, Tombstone, Waiter},
};
use crate::{
    error::Loss,
    id::{AttemptId, ClientId},
    name::Name,
    view::{HolderView, LeaseView, Phase, WaiterView},
};

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
        Command::Check(_) => false,
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
        Command::Silence(client) => {
            step.silence(*client);
            Reply::Silence
        }
    };
    if step.changed {
        step.serve(None);
    }
    Applied { reply, changed: step.changed, wakes: step.wakes }
}

/// What anyone may see of the record.
pub fn view(name: &Name, record: &Record, evidence: &dyn Evidence) -> LeaseView {
    let alive = |term| !evidence.left(term).is_over();
    let waiters = record.queue.iter().filter(|waiter| alive(&waiter.term)).enumerate();
    LeaseView {
        name: name.clone(),
        holders: record.holders.iter().filter(|h| alive(&h.term)).map(|h| holder_view(h, evidence)).collect(),
        queue: Some(
            waiters
                .map(|(index, waiter)| WaiterView {
                    position: position(index),
                    owner: waiter.who.owner.clone(),
                    reason: waiter.who.reason.clone(),
                    waiting: evidence.since(waiter.since),
                    silent: waiter.parked,
                })
                .collect(),
        ),
    }
}

fn holder_view(holder: &Holder, evidence: &dyn Evidence) -> HolderView {
    HolderView {
        fence: Some(holder.fence),
        owner: holder.who.owner.clone(),
        reason: holder.who.reason.clone(),
        acquired_at_ms: holder.acquired_at_ms,
        expires_in: evidence.left(&holder.term).duration(),
        phase: holder.phase,
    }
}

fn position(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

/// One step under way.
struct Step<'a> {
    record: &'a mut Record,
    evidence: &'a dyn Evidence,
    changed: bool,
    wakes: Vec<Wake>,
}

// The commands.
impl Step<'_> {
    fn claim(&mut self, claim: &Claim) -> ClaimReply {
        if self.record.tombstone(claim.id).is_some() {
            return ClaimReply::Gone;
        }
        if let Some(work) = &claim.work
            && let Some(grant) = self.attach(claim, work)
        {
            return ClaimReply::Granted(grant);
        }
        if let Some(holder) = self.record.holder(claim.id)
            && !bad!(ClaimIsNotIdempotent)
        {
            return match holder.phase {
                Phase::Held | Phase::Offered => ClaimReply::Granted(self.grant_of(holder)),
                Phase::Broken | Phase::Lingering => ClaimReply::Gone,
            };
        }
        if self.record.holders.is_empty() && self.record.queue.is_empty() {
            self.record.capacity = claim.capacity;
        } else if self.record.capacity != claim.capacity {
            return ClaimReply::Mismatch { capacity: self.record.capacity };
        }
        self.hear(claim);

        let waits = self.record.queue.iter().any(|waiter| waiter.id == claim.id);
        let nobody_first = bad!(NewcomerOvertakes) || self.record.queue.iter().all(|waiter| waiter.parked);
        if !waits && nobody_first && self.fits(claim.permits) {
            return ClaimReply::Granted(self.grant_newcomer(claim));
        }
        if !waits {
            match claim.queue {
                Some(queueing) => self.enqueue(claim, queueing),
                None => return self.held(),
            }
        }
        self.serve(Some(claim.id));
        if let Some(holder) = self.record.holder(claim.id) {
            return ClaimReply::Granted(self.grant_of(holder));
        }
        ClaimReply::Queued(self.place_of(claim.id))
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
        HoldReply::Held { left: evidence.left(&holder.term).duration() }
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
            // The claim itself may still be under way.
            self.bury(release.id, End::Left, release.remember);
            return reply;
        };
        let now = self.evidence.now();
        let holder = &mut self.record.holders[index];
        if holder.phase == Phase::Lingering {
            return ReleaseReply::Already;
        }
        self.changed = true;
        if let Some(span) = release.linger {
            holder.phase = Phase::Lingering;
            holder.term = Term { start: now, span };
            self.tell_next();
        } else {
            self.record.holders.swap_remove(index);
        }
        self.bury(release.id, End::Released, release.remember);
        ReleaseReply::Released
    }

    fn leave(&mut self, leave: Leave) -> LeaveReply {
        let reply = if let Some(index) = self.record.queue.iter().position(|waiter| waiter.id == leave.id) {
            self.record.queue.remove(index);
            self.changed = true;
            LeaveReply::Waiting
        } else if let Some(index) = self.record.holders.iter().position(|holder| holder.id == leave.id) {
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
        match self.record.holders[index].phase {
            Phase::Broken => return HandOverReply::Lost(Loss::Broken),
            Phase::Lingering => return HandOverReply::Lost(Loss::Released),
            Phase::Held | Phase::Offered => {}
        }
        let fence = if bad!(HandOverKeepsFence) { hand_over.fence } else { self.next_fence() };
        let holder = &mut self.record.holders[index];
        let max_hold = holder.rare.as_ref().and_then(|rare| rare.max_hold);
        let mut span = holder.ttl;
        if let Some(Left::For(left)) = max_hold.map(|term| evidence.left(&term)) {
            span = span.min(Span::from_millis(whole_millis(left)));
        }
        holder.id = hand_over.to;
        holder.fence = fence;
        holder.tenure = 0;
        holder.phase = Phase::Held;
        holder.client = None;
        holder.term = Term { start: evidence.now(), span };
        let rare = holder.rare.get_or_insert_default();
        rare.from = Some(hand_over.id);
        rare.offered_to = None;
        rare.attached_by = None;
        self.changed = true;
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
        let fence = self.next_fence();
        self.record.fence = fence;
        self.changed = true;
        let holder = &mut self.record.holders[index];
        if let Some(client) = holder.client {
            self.wakes.push(Wake { client, id: holder.id, news: News::Broken });
        }
        if request.now {
            let holder = self.record.holders.swap_remove(index);
            self.bury(holder.id, End::Broken, Some(remembered(holder.ttl)));
            return BreakReply::Broken { free_in: Duration::ZERO };
        }
        holder.phase = Phase::Broken;
        // An offer that was broken goes to nobody else's account.
        if let Some(rare) = &mut holder.rare {
            rare.offered_to = None;
        }
        if holder.term.span == Span::NEVER {
            holder.term = Term { start: evidence.now(), span: BROKEN_NEVER };
        }
        let free_in = evidence.left(&holder.term).duration().unwrap_or_default();
        self.tell_next();
        BreakReply::Broken { free_in }
    }

    /// Passes over all waiters of a client that nobody receives for, and takes back what was offered to it.
    fn silence(&mut self, client: ClientId) {
        while let Some(index) =
            self.record.holders.iter().position(|h| h.phase == Phase::Offered && h.client == Some(client))
        {
            let holder = self.record.holders.swap_remove(index);
            self.take_back(holder);
        }
        self.park(client);
    }
}

// What the commands have in common.
impl Step<'_> {
    /// Removes what the evidence says is over.
    fn settle(&mut self) {
        let evidence = self.evidence;
        let over = |term: &Term| evidence.left(term).is_over();

        while let Some(index) = self.record.holders.iter().position(|holder| over(&holder.term)) {
            let holder = self.record.holders.swap_remove(index);
            self.take_back(holder);
        }
        let before = (self.record.queue.len(), self.record.tombstones.len());
        if !bad!(DeadWaitersStay) {
            self.record.queue.retain(|waiter| !over(&waiter.term));
        }
        if !bad!(TombstonesForever) {
            self.record.tombstones.retain(|tombstone| !over(&tombstone.term));
        }
        self.changed |= before != (self.record.queue.len(), self.record.tombstones.len());
    }

    /// Offers what is free to those whose turn it is, strictly in order: one that wants more permits than are free is
    /// not overtaken by one that wants fewer. The caller is here, so it gets its whole ttl; the others have to answer
    /// first.
    fn serve(&mut self, caller: Option<AttemptId>) {
        let mut served = false;
        while let Some(index) = self.record.queue.iter().position(|waiter| !waiter.parked)
            && self.fits(self.record.queue[index].permits)
            && let Some(waiter) = self.record.queue.remove(index)
        {
            served = true;
            self.grant_waiter(waiter, caller);
        }
        if served {
            self.tell_next();
        }
    }

    fn grant_waiter(&mut self, waiter: Waiter, caller: Option<AttemptId>) {
        let start = self.evidence.now();
        let here = caller == Some(waiter.id);
        let whole = here || bad!(OfferLastsWholeTtl);
        let max_hold = waiter.max_hold.map(|span| Term { start, span });
        let longest = waiter.max_hold.map_or(waiter.ttl, |most| most.min(waiter.ttl));
        let rare = Rare {
            max_hold,
            work: waiter.work.clone(),
            offered_to: (!here).then(|| waiter.clone()),
            ..Rare::default()
        };
        let fence = self.next_fence();
        self.record.fence = fence;
        self.record.holders.push(Holder {
            id: waiter.id,
            fence,
            permits: waiter.permits,
            tenure: 0,
            phase: if here { Phase::Held } else { Phase::Offered },
            ttl: waiter.ttl,
            term: Term { start, span: if whole { longest } else { waiter.window.min(longest) } },
            client: waiter.client,
            acquired_at_ms: self.evidence.wall_ms(),
            who: waiter.who,
            rare: (rare != Rare::default()).then(|| Box::new(rare)),
        });
        self.changed = true;
        if let Some(client) = waiter.client
            && !here
        {
            self.wakes.push(Wake { client, id: waiter.id, news: News::Offer });
        }
    }

    /// Without a place in the queue: nobody is before it.
    fn grant_newcomer(&mut self, claim: &Claim) -> Grant {
        // A newcomer is a waiter that never had to wait.
        let waiter = self.waiter(claim, Queueing { waiter_ttl: claim.ttl, window: claim.ttl });
        self.grant_waiter(waiter, Some(claim.id));
        let holder = self.record.holders.last().expect("one was just granted");
        self.grant_of(holder)
    }

    fn enqueue(&mut self, claim: &Claim, queueing: Queueing) {
        let waiter = self.waiter(claim, queueing);
        self.record.next_place += 1;
        self.record.queue.push_back(waiter);
        self.changed = true;
    }

    fn waiter(&self, claim: &Claim, queueing: Queueing) -> Waiter {
        let now = self.evidence.now();
        Waiter {
            id: claim.id,
            place: self.record.next_place,
            permits: claim.permits,
            ttl: claim.ttl,
            window: queueing.window,
            term: Term { start: now, span: queueing.waiter_ttl },
            since: now,
            client: claim.client,
            parked: false,
            max_hold: claim.max_hold,
            work: claim.work.clone(),
            who: claim.who.clone(),
        }
    }

    /// The claim shows that its client lives: all its waiters keep their places for another waiter ttl.
    fn hear(&mut self, claim: &Claim) {
        let Some(queueing) = claim.queue else { return };
        let term = Term { start: self.evidence.now(), span: queueing.waiter_ttl };
        for waiter in &mut self.record.queue {
            if waiter.id == claim.id || (waiter.client.is_some() && waiter.client == claim.client) {
                waiter.term = term;
                waiter.parked &= bad!(ParkedForever);
                self.changed = true;
            }
        }
        if bad!(HeartbeatLosesPlace)
            && let Some(index) = self.record.queue.iter().position(|waiter| waiter.id == claim.id)
            && let Some(waiter) = self.record.queue.remove(index)
        {
            self.record.queue.push_back(waiter);
        }
    }

    /// The orchestrator of the same work takes the lease over from its predecessor: id and fence stay.
    fn attach(&mut self, claim: &Claim, work: &Arc<str>) -> Option<Grant> {
        let index = self.record.holders.iter().position(|holder| {
            matches!(holder.phase, Phase::Held | Phase::Offered)
                && holder.id != claim.id
                && holder.rare.as_ref().is_some_and(|rare| rare.work.as_ref() == Some(work))
        })?;
        let holder = &mut self.record.holders[index];
        let rare = holder.rare.get_or_insert_default();
        if rare.attached_by != Some(claim.id) {
            rare.attached_by = Some(claim.id);
            holder.tenure += 1;
            holder.client = claim.client;
            holder.who = claim.who.clone();
            self.changed = true;
        }
        Some(self.grant_of(&self.record.holders[index]))
    }

    fn grant_of(&self, holder: &Holder) -> Grant {
        Grant {
            id: holder.id,
            fence: holder.fence,
            tenure: holder.tenure,
            left: self.evidence.left(&holder.term).duration(),
            offered: holder.phase == Phase::Offered,
        }
    }

    /// The answer to one that does not queue.
    fn held(&mut self) -> ClaimReply {
        self.serve(None);
        let longest = self.soonest_free().or(self.record.holders.first());
        match longest {
            Some(holder) => ClaimReply::Held(holder_view(holder, self.evidence)),
            // More permits were wanted than there are.
            None => ClaimReply::Mismatch { capacity: self.record.capacity },
        }
    }

    fn place_of(&self, id: AttemptId) -> Queued {
        let before = self.record.queue.iter().take_while(|waiter| waiter.id != id);
        // Each before us may cost a claim window once the holder is gone.
        let windows: Duration =
            before.clone().filter(|waiter| !waiter.parked).filter_map(|waiter| waiter.window.duration()).sum();
        let holder = self.soonest_free();
        Queued {
            position: position(before.count()),
            wake_in: holder.and_then(|h| self.evidence.left(&h.term).duration()).map(|left| left + windows),
            holder: holder.or(self.record.holders.first()).map(|holder| holder_view(holder, self.evidence)),
        }
    }

    /// The holder whose time ends first, of those whose time ends.
    fn soonest_free(&self) -> Option<&Holder> {
        let ends = |holder: &&Holder| self.evidence.left(&holder.term).duration().is_some();
        self.record.holders.iter().filter(ends).min_by_key(|holder| self.evidence.left(&holder.term).duration())
    }

    /// Tells the first in the queue when its turn may come, if the holder does not answer or renew.
    fn tell_next(&mut self) {
        let Some(left) = self.soonest_free().and_then(|holder| self.evidence.left(&holder.term).duration()) else {
            return;
        };
        if let Some(waiter) = self.record.queue.iter().find(|waiter| !waiter.parked)
            && let Some(client) = waiter.client
        {
            let in_ms = u64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
            self.wakes.push(Wake { client, id: waiter.id, news: News::Next { in_ms } });
        }
    }

    fn fits(&self, permits: u32) -> bool {
        self.record.permits_used().saturating_add(permits) <= self.record.capacity
    }

    fn next_fence(&self) -> u64 {
        if bad!(FenceNotRaised) {
            return self.record.fence.max(self.evidence.fence_floor());
        }
        (self.record.fence + 1).max(self.evidence.fence_floor())
    }

    /// Remembers an attempt id that ended.
    fn bury(&mut self, id: AttemptId, end: End, remember: Option<Span>) {
        let Some(span) = remember else { return };
        if bad!(NoTombstone) || self.record.tombstone(id).is_some() {
            return;
        }
        self.record.tombstones.push(Tombstone { id, end, term: Term { start: self.evidence.now(), span } });
        self.changed = true;
    }

    fn park(&mut self, client: ClientId) {
        for waiter in self.record.queue.iter_mut().filter(|waiter| waiter.client == Some(client) && !waiter.parked) {
            waiter.parked = true;
            self.changed = true;
        }
    }

    /// Why an attempt id does not hold.
    fn loss_of(&self, id: AttemptId) -> Loss {
        match self.record.tombstone(id).map(|tombstone| tombstone.end) {
            Some(End::Released) => Loss::Released,
            Some(End::Broken) => Loss::Broken,
            Some(End::Left) => Loss::Expired,
            None if self.record.holders.iter().any(|h| h.id != id && !self.evidence.left(&h.term).is_over()) => {
                Loss::Overtaken
            }
            None => Loss::Expired,
        }
    }

    /// A holder is gone. If it had been offered the name and did not answer, it returns to its place, and its client
    /// is silent until it is heard.
    fn take_back(&mut self, holder: Holder) {
        self.changed = true;
        let Some(waiter) = holder.rare.and_then(|rare| rare.offered_to) else { return };
        let client = waiter.client;
        if !self.evidence.left(&waiter.term).is_over() {
            let index = self.record.queue.partition_point(|other| other.place < waiter.place);
            self.record.queue.insert(index, Waiter { parked: true, ..waiter });
        }
        if let Some(client) = client
            && !bad!(SilenceOneByOne)
        {
            self.park(client);
        }
    }
}

#[cfg(test)]
impl Step<'_> {
    /// The mistake of [`Variant::RenewCreates`](super::variants::Variant::RenewCreates).
    fn create_by_renewal(&mut self, renew: &Renew) {
        self.record.holders.push(Holder {
            id: renew.id,
            fence: renew.fence,
            permits: 1,
            tenure: 0,
            phase: Phase::Held,
            ttl: Span::from_millis(1000),
            term: Term { start: self.evidence.now(), span: Span::from_millis(1000) },
            client: None,
            acquired_at_ms: 0,
            who: Arc::new(super::Who { owner: "".into(), reason: None }),
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
    const LATEST: Duration = Duration::from_secs(60);
    if ttl == Span::NEVER { LATEST.into() } else { ttl.plus(LATEST) }
}
