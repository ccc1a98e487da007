//! Whose turn it is: expiry, the queue, offers and grants.

use std::{sync::Arc, time::Duration};

use super::{
    bad,
    command::{Claim, ClaimReply, Grant, News, Queued, Queueing, Wake},
    record::{End, Holder, Rare, Span, Term, Tombstone, Waiter},
    rules::{Step, remembered},
    view::{holder_view, position},
};
use crate::{
    error::Loss,
    id::{AttemptId, ClientId},
    view::Phase,
};

/// With so many tombstones the oldest that marks a release is forgotten.
const MOST_TOMBSTONES: usize = 256;

impl Step<'_> {
    /// Removes what the evidence says is over.
    pub(super) fn settle(&mut self) {
        let evidence = self.evidence;
        let over = |term: &Term| evidence.left(term).is_over();

        while let Some(index) = self.record.holders.iter().position(|holder| over(&holder.term)) {
            let holder = self.record.holders.swap_remove(index);
            self.take_back(holder, true);
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
    pub(super) fn serve(&mut self, caller: Option<AttemptId>) {
        let mut served = false;
        while let Some(index) = self.record.queue.iter().position(|waiter| {
            // The first, whether or not what it wants is free.
            !waiter.parked && (!bad!(SmallOvertakesLarge) || self.fits(waiter.permits))
        }) && self.fits(self.record.queue[index].permits)
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
        // Almost always there is one, and a vector would make room for four.
        self.record.holders.reserve_exact(1);
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
            && !bad!(OfferTellsNobody)
        {
            self.wakes.push(Wake { client, id: waiter.id, news: News::Offer { fence } });
        }
    }

    /// Without a place in the queue: nobody is before it.
    pub(super) fn grant_newcomer(&mut self, claim: &Claim) -> Grant {
        // A newcomer is a waiter that never had to wait.
        let waiter = self.waiter(claim, Queueing { waiter_ttl: claim.ttl, window: claim.ttl });
        self.grant_waiter(waiter, Some(claim.id));
        let holder = self.record.holders.last().expect("one was just granted");
        self.grant_of(holder)
    }

    pub(super) fn enqueue(&mut self, claim: &Claim, queueing: Queueing) {
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
            lapsed: false,
            max_hold: claim.max_hold,
            work: claim.work.clone(),
            who: claim.who.clone(),
        }
    }

    /// The claim shows that its client lives: all its waiters keep their places for another waiter ttl.
    pub(super) fn hear(&mut self, claim: &Claim) {
        let now = self.evidence.now();
        for waiter in &mut self.record.queue {
            let itself = waiter.id == claim.id;
            let forgotten = waiter.lapsed && !bad!(ForgottenReturns);
            if itself || (waiter.client.is_some() && waiter.client == claim.client && !forgotten) {
                waiter.term.start = now;
                waiter.parked &= bad!(ParkedForever);
                waiter.lapsed = false;
                self.changed = true;
            }
            // It may have reconnected: from now on it is woken there.
            if itself {
                waiter.client = claim.client;
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
    pub(super) fn attach(&mut self, claim: &Claim, work: &Arc<str>) -> Option<Grant> {
        let index = self.record.holders.iter().position(|holder| {
            matches!(holder.phase, Phase::Held | Phase::Offered)
                && holder.id != claim.id
                && holder.rare.as_ref().is_some_and(|rare| rare.work.as_ref() == Some(work))
        })?;
        let holder = &mut self.record.holders[index];
        let rare = holder.rare.get_or_insert_default();
        if rare.attached_by != Some(claim.id) {
            let before = rare.attached_by.replace(claim.id);
            // Overtaken, the waiter that it was offered to does not return; and this caller knows of the offer.
            rare.offered_to = None;
            rare.seen = true;
            holder.tenure += 1;
            holder.client = claim.client;
            holder.who = claim.who.clone();
            let remember = remembered(holder.ttl);
            self.changed = true;
            if !bad!(AttachKeepsPlace) {
                self.unqueue(claim.id);
            }
            // A late claim of the one before must not take it back.
            if let Some(before) = before
                && !bad!(LateAttachOvertakes)
            {
                self.bury(before, End::Overtaken, Some(remember));
            }
        }
        Some(self.grant_of(&self.record.holders[index]))
    }

    pub(super) fn grant_of(&self, holder: &Holder) -> Grant {
        Grant {
            id: holder.id,
            fence: holder.fence,
            tenure: holder.tenure,
            ttl: holder.ttl,
            left: self.evidence.left(&holder.term).duration(),
            offered: holder.phase == Phase::Offered,
        }
    }

    /// The answer to one that does not queue.
    pub(super) fn held(&self) -> ClaimReply {
        match self.soonest_free().or(self.record.holders.first()) {
            Some(holder) => ClaimReply::Held(holder_view(holder, self.evidence)),
            // Only if more permits are wanted than there are, which is refused before.
            None => ClaimReply::Mismatch { capacity: self.record.capacity },
        }
    }

    pub(super) fn place_of(&self, id: AttemptId) -> Queued {
        let before = self.record.queue.iter().take_while(|waiter| waiter.id != id);
        let holder = self.soonest_free();
        let left = holder.and_then(|holder| self.evidence.left(&holder.term).duration());
        Queued {
            position: position(before.count()),
            wake_in: left.map(|left| left + self.patience(id)),
            holder: holder.or(self.record.holders.first()).map(|holder| holder_view(holder, self.evidence)),
        }
    }

    /// How long after the holder's end a waiter looks whether it is its turn. The first two clients look at once: one
    /// to take the name, the other in case that one is dead, since nothing is offered until somebody looks. Those
    /// behind leave them a claim window, so that not all come at the same time.
    fn patience(&self, id: AttemptId) -> Duration {
        let own = self.record.queue.iter().find(|waiter| waiter.id == id).and_then(|waiter| waiter.client);
        let before = self.record.queue.iter().take_while(|waiter| waiter.id != id).filter(|waiter| !waiter.parked);
        if bad!(LooksTooLate) {
            return before.filter_map(|waiter| waiter.window.duration()).sum();
        }
        let mut others = before.filter(|waiter| waiter.client.is_none() || waiter.client != own);
        let first = others.next().and_then(|waiter| waiter.client);
        let second = others.find(|waiter| waiter.client.is_none() || waiter.client != first);
        second.and_then(|waiter| waiter.window.duration()).unwrap_or_default()
    }

    /// The holder whose time ends first, of those whose time ends.
    fn soonest_free(&self) -> Option<&Holder> {
        let ends = |holder: &&Holder| self.evidence.left(&holder.term).duration().is_some();
        self.record.holders.iter().filter(ends).min_by_key(|holder| self.evidence.left(&holder.term).duration())
    }

    /// Tells the next in the queue when its turn may come, if the holder does not answer or renew. Should that be an
    /// offer that nobody answers, the other waiters of its client may be as silent: the next client is told too.
    pub(super) fn tell_next(&mut self) {
        let Some(holder) = self.soonest_free() else { return };
        let offered = holder.client.filter(|_| holder.phase == Phase::Offered);
        let Some(left) = self.evidence.left(&holder.term).duration() else { return };
        let in_ms = u64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        for waiter in self.record.queue.iter().filter(|waiter| !waiter.parked) {
            if let Some(client) = waiter.client {
                self.wakes.push(Wake { client, id: waiter.id, news: News::Next { in_ms } });
            }
            if offered.is_none() || waiter.client != offered || bad!(TellsTheSilent) {
                break;
            }
        }
    }

    pub(super) fn fits(&self, permits: u32) -> bool {
        let used = if bad!(PermitsNotCounted) {
            u32::try_from(self.record.holders.len()).unwrap_or(u32::MAX)
        } else {
            self.record.permits_used()
        };
        used.saturating_add(permits) <= self.record.capacity
    }

    pub(super) fn next_fence(&self) -> u64 {
        if bad!(FenceNotRaised) {
            return self.record.fence.max(self.evidence.fence_floor());
        }
        if bad!(FloorIgnored) {
            return self.record.fence + 1;
        }
        (self.record.fence + 1).max(self.evidence.fence_floor())
    }

    /// Remembers an attempt id that ended.
    pub(super) fn bury(&mut self, id: AttemptId, end: End, remember: Option<Span>) {
        let Some(span) = remember else { return };
        if bad!(NoTombstone) || self.record.tombstone(id).is_some() {
            return;
        }
        // A second release that finds nothing is a small harm; a record that grows with every release is not.
        let released = |tombstone: &Tombstone| tombstone.end == End::Released;
        if self.record.tombstones.len() >= MOST_TOMBSTONES
            && let Some(oldest) = self.record.tombstones.iter().position(released)
        {
            self.record.tombstones.remove(oldest);
        }
        self.record.tombstones.push(Tombstone { id, end, term: Term { start: self.evidence.now(), span } });
        self.changed = true;
    }

    /// Ends a wait. Says whether there was one.
    pub(super) fn unqueue(&mut self, id: AttemptId) -> bool {
        let found = self.record.queue.iter().position(|waiter| waiter.id == id);
        let removed = found.and_then(|index| self.record.queue.remove(index)).is_some();
        self.changed |= removed;
        removed
    }

    pub(super) fn park(&mut self, client: ClientId) {
        for waiter in self.record.queue.iter_mut().filter(|waiter| waiter.client == Some(client) && !waiter.parked) {
            waiter.parked = true;
            self.changed = true;
        }
    }

    /// Why an attempt id does not hold.
    pub(super) fn loss_of(&self, id: AttemptId) -> Loss {
        match self.record.tombstone(id).map(|tombstone| tombstone.end) {
            Some(End::Released) => Loss::Released,
            Some(End::Broken) => Loss::Broken,
            Some(End::Overtaken) => Loss::Overtaken,
            Some(End::Left) | None
                if self.record.holders.iter().any(|h| h.id != id && !self.evidence.left(&h.term).is_over()) =>
            {
                Loss::Overtaken
            }
            Some(End::Left) | None => Loss::Expired,
        }
    }

    /// A holder is gone. If it was only offered the name and did not answer, it returns to its place, and its client is
    /// silent until it is heard. `lapsed`: it could have answered.
    pub(super) fn take_back(&mut self, holder: Holder, lapsed: bool) {
        self.changed = true;
        if holder.phase != Phase::Offered && !bad!(EndedOfferReturns) {
            return;
        }
        let Some(waiter) = holder.rare.and_then(|rare| rare.offered_to) else { return };
        let client = waiter.client;
        if !self.evidence.left(&waiter.term).is_over() && !bad!(LapsedOfferLosesPlace) {
            let index = self.record.queue.partition_point(|other| other.place < waiter.place);
            self.record.queue.insert(index, Waiter { parked: true, lapsed, ..waiter });
        }
        if let Some(client) = client
            && !bad!(SilenceOneByOne)
        {
            self.park(client);
        }
    }
}
