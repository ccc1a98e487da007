//! What must hold after each step, seen from the store.

use std::collections::{HashMap, HashSet};

use super::{
    Verdict,
    clock::{At, DAY},
    ensure,
    line::Line,
    number,
};
use crate::engine::Evidence as _;
use crate::{
    engine::{
        Applied, BreakReply, Claim, ClaimReply, Command, HandOverReply, HoldReply, Holder, Record, Reply, Tombstone,
    },
    id::AttemptId,
    view::Phase,
};

/// One step.
pub(super) struct Seen<'a> {
    pub(super) before: &'a Record,
    pub(super) after: &'a Record,
    pub(super) command: &'a Command,
    pub(super) applied: &'a Applied,
    pub(super) at: At,
}

impl Seen<'_> {
    /// Who was granted the name in this step, other than by a hand-over.
    pub(super) fn granted(&self) -> Vec<&Holder> {
        self.after.holders.iter().filter(|holder| self.is_new(holder) && !self.received(holder)).collect()
    }

    /// Whether it was handed over to it.
    fn received(&self, holder: &Holder) -> bool {
        matches!(self.applied.reply, Reply::HandOver(HandOverReply::Done { fence, .. }) if fence == holder.fence)
    }

    fn is_new(&self, holder: &Holder) -> bool {
        self.before.holders.iter().all(|other| other.id != holder.id || other.fence != holder.fence)
    }
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) line: Line,
    /// The claim of each attempt id.
    pub(super) claims: HashMap<AttemptId, Claim>,
    /// Every lease that there was, the last one last.
    pub(super) leases: Vec<(AttemptId, u64)>,
    /// Attempt ids that are to be refused until then. Microseconds.
    pub(super) refused: HashMap<AttemptId, u64>,
    /// The fences that the reply to a claim told of first.
    pub(super) told: HashSet<u64>,
    /// The largest fence that was given or used up.
    issued: u64,
    /// When a lease with a `max_hold` has to end, by fence. Microseconds.
    caps: HashMap<u64, u64>,
    /// When a broken lease has to end, by fence. Microseconds.
    broken: HashMap<u64, u64>,
    /// Who attached last, by fence.
    attached: HashMap<u64, AttemptId>,
}

impl Watch {
    pub(super) fn step(&mut self, seen: &Seen) -> Verdict {
        self.line.step(seen)?;
        self.fences(seen)?;
        self.caps(seen)?;
        self.breaks(seen)?;
        self.ends(seen);
        answers(seen)?;
        bounded(seen)
    }

    /// I2: every fence is larger than all before it, across hand-over, break and a lost record.
    fn fences(&mut self, seen: &Seen) -> Verdict {
        let mut new: Vec<&Holder> = seen.after.holders.iter().filter(|holder| seen.is_new(holder)).collect();
        new.sort_by_key(|holder| holder.fence);
        for holder in new {
            let (id, fence) = (holder.id, holder.fence);
            ensure!(fence > self.issued, "I2: {} got the fence {fence} after {}", number(id), self.issued);
            self.issued = fence;
            self.leases.push((id, fence));
            let cap = match seen.command {
                Command::HandOver(hand_over) if seen.received(holder) => self.caps.get(&hand_over.fence).copied(),
                _ => self
                    .claims
                    .get(&id)
                    .and_then(|claim| claim.max_hold?.duration())
                    .map(|most| seen.at.now + super::clock::micros(most)),
            };
            self.caps.extend(cap.map(|cap| (fence, cap)));
        }
        if let (Command::Break(_), Reply::Break(BreakReply::Broken { .. })) = (seen.command, &seen.applied.reply) {
            self.issued = self.issued.max(seen.after.fence);
        }
        Ok(())
    }

    fn caps(&self, seen: &Seen) -> Verdict {
        let end = |holder: &Holder| seen.at.left_us(&holder.term).map_or(u64::MAX, |left| seen.at.now + left);
        for holder in seen.after.holders.iter().filter(|holder| holder.phase != Phase::Lingering) {
            let cap = self.caps.get(&holder.fence).copied().unwrap_or(u64::MAX);
            ensure!(end(holder) <= cap, "caps: {} lasts beyond its max_hold", number(holder.id));
        }
        if let Command::Renew(renew) = seen.command
            && let Some(not_after) = renew.not_after_ms
            && let Reply::Hold(HoldReply::Held { .. }) = seen.applied.reply
        {
            // The time of day has a grain of a millisecond.
            let last = (not_after - DAY) * 1000 + 999;
            let find = |record: &Record| record.holder(renew.id).map(end);
            let (before, after) = (find(seen.before).unwrap_or_default(), find(seen.after).unwrap_or_default());
            ensure!(last > seen.at.now, "caps: {} was renewed after its not_after", number(renew.id));
            ensure!(after <= last.max(before), "caps: {} was renewed beyond its not_after", number(renew.id));
        }
        Ok(())
    }

    /// A broken lease ends when its operator was told.
    fn breaks(&mut self, seen: &Seen) -> Verdict {
        for holder in &seen.after.holders {
            let left = seen.at.left_us(&holder.term).unwrap_or(u64::MAX / 2);
            let cap = self.broken.get(&holder.fence).copied().unwrap_or(u64::MAX);
            ensure!(seen.at.now + left <= cap, "break: {} outlives its break", number(holder.id));
        }
        if let (Command::Break(request), Reply::Break(BreakReply::Broken { free_in })) =
            (seen.command, &seen.applied.reply)
        {
            let end = seen.at.now + super::clock::micros(*free_in);
            self.broken.insert(request.fence, end);
            let found = seen.after.holders.iter().find(|holder| holder.fence == request.fence);
            ensure!(
                found.is_none_or(|holder| seen.at.left_us(&holder.term).is_some_and(|left| seen.at.now + left <= end)),
                "break: {} is not free when it was said to be",
                number(found.expect("just seen").id)
            );
        }
        Ok(())
    }

    /// Whose late requests are to be refused from now on.
    fn ends(&mut self, seen: &Seen) {
        const MINUTE: u64 = 60_000_000;
        let mut refuse = |id, until| {
            self.refused.entry(id).or_insert(until);
        };
        let until = |remember: crate::engine::Span| {
            seen.at.now + remember.duration().map_or(u64::MAX / 2, super::clock::micros)
        };
        let remains = |id| seen.after.holder(id).is_some_and(|holder| holder.phase != Phase::Lingering);
        match (seen.command, &seen.applied.reply) {
            (Command::Leave(leave), _) => {
                if let Some(remember) = leave.remember {
                    refuse(leave.id, until(remember));
                }
            }
            // One that was overtaken released nothing.
            (Command::Release(release), _) if !remains(release.id) => {
                if let Some(remember) = release.remember {
                    refuse(release.id, until(remember));
                }
            }
            (Command::HandOver(hand_over), Reply::HandOver(HandOverReply::Done { .. })) => {
                refuse(hand_over.id, seen.at.now + MINUTE);
            }
            (Command::Claim(claim), Reply::Claim(ClaimReply::Granted(grant))) if grant.id != claim.id => {
                if let Some(earlier) =
                    self.attached.insert(grant.fence, claim.id).filter(|earlier| *earlier != claim.id)
                {
                    refuse(earlier, seen.at.now + MINUTE);
                }
            }
            _ => {}
        }
        if let (Command::Claim(claim), Reply::Claim(ClaimReply::Granted(grant))) = (seen.command, &seen.applied.reply)
            && claim.told != Some(grant.fence)
        {
            self.told.insert(grant.fence);
        }
        self.refused.retain(|_, until| *until > seen.at.now);
    }
}

/// I8: what is kept is bounded, and each thing once.
fn bounded(seen: &Seen) -> Verdict {
    let record = seen.after;
    let ids = record.holders.iter().map(|holder| holder.id).chain(record.queue.iter().map(|waiter| waiter.id));
    let mut once = HashSet::new();
    for id in ids {
        ensure!(once.insert(id), "I8: {} stands in the record twice", number(id));
    }
    ensure!(record.permits_used() <= record.capacity, "I1: more permits are granted than there are");
    let places: Vec<u64> = record.queue.iter().map(|waiter| waiter.place).collect();
    ensure!(places.is_sorted_by(|a, b| a < b), "I4: the queue is out of order");
    if let Command::Check(_) = seen.command {
        ensure!(seen.before == record && !seen.applied.changed, "check: it changed something");
        return Ok(());
    }
    ensure!(seen.applied.changed || seen.before == record, "the record changed, and nobody was told to write it");
    let over = |tombstone: &Tombstone| seen.at.is_over(&tombstone.term);
    ensure!(!record.tombstones.iter().any(over), "I8: a tombstone outlives its time");
    ensure!(!record.queue.iter().any(|waiter| seen.at.is_over(&waiter.term)), "I8: a dead waiter stays");
    ensure!(!record.holders.iter().any(|holder| seen.at.is_over(&holder.term)), "I8: a dead holder stays");
    Ok(())
}

/// What single replies promise.
fn answers(seen: &Seen) -> Verdict {
    let after = seen.after;
    let waits = |id| after.queue.iter().any(|waiter| waiter.id == id);
    match (seen.command, &seen.applied.reply) {
        (Command::Claim(claim), Reply::Claim(reply)) => {
            let fits = claim.permits <= claim.capacity;
            let refused = matches!(reply, ClaimReply::Mismatch { .. } | ClaimReply::Gone);
            ensure!(fits || refused, "claim: {} waits for more than there is", number(claim.id));
            if let ClaimReply::Granted(grant) = reply {
                ensure!(!waits(claim.id), "claim: {} was granted the name and still waits", number(claim.id));
                let holder = after.holder(grant.id).filter(|holder| holder.fence == grant.fence);
                let left = holder.map(|holder| seen.at.left_us(&holder.term));
                ensure!(
                    left == Some(grant.left.map(super::clock::micros)),
                    "claim: {} was told of another grant than it has",
                    number(claim.id)
                );
            }
        }
        (Command::Leave(leave), _) => {
            let held = after.holder(leave.id).filter(|holder| holder.tenure == 0 && holder.phase != Phase::Lingering);
            ensure!(held.is_none() && !waits(leave.id), "leave: {} is still there", number(leave.id));
        }
        (Command::Release(release), _) => {
            ensure!(!waits(release.id), "release: {} still waits", number(release.id));
        }
        (Command::Renew(renew), Reply::Hold(HoldReply::Held { left })) => {
            let before = seen.before.holder(renew.id).filter(|holder| holder.fence == renew.fence);
            ensure!(
                before.is_some_and(|holder| !seen.at.is_over(&holder.term)),
                "renew: {} was revived",
                number(renew.id)
            );
            let has = after.holder(renew.id).map(|holder| seen.at.left_us(&holder.term));
            // A bearer whose right ends earlier may not rely on what another owner has.
            let may = renew.not_after_ms.map(|at| at.saturating_sub(seen.at.wall_ms()) * 1000);
            ensure!(
                has.map(|has| [has, may].into_iter().flatten().min()) == Some(left.map(super::clock::micros)),
                "renew: {} was told of another term than it has",
                number(renew.id)
            );
        }
        _ => {}
    }
    Ok(())
}
