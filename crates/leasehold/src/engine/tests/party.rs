//! What a client does, by the rules that it goes by.

use super::{
    Verdict,
    beliefs::Believer,
    clock::{DAY, micros},
    script::{Plan, Post},
    world::{REMEMBER, Sender, World},
};
use crate::{
    engine::{ClaimReply, Command, Grant, HandOver, HandOverReply, HoldReply, Leave, Release, Renew, Reply, Span},
    id::AttemptId,
};

/// One that competes: one attempt after the other.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) plan: Plan,
    pub(super) id: AttemptId,
    /// The attempt is under way.
    pub(super) open: bool,
    lease: Option<Lease>,
    /// Another attached to its lease, whether it knows or not.
    overtaken: bool,
    /// The offer that it received news of.
    pub(super) told: Option<u64>,
    /// Requests with this attempt id that have no answer.
    unanswered: u32,
    alarms: u64,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: AttemptId,
    fence: u64,
    /// `None`: it shares another's.
    tenure: Option<u32>,
    /// Zero: not relied on yet. Microseconds.
    until: u64,
}

impl Party {
    pub(super) fn new(plan: Plan, id: AttemptId) -> Self {
        Self { plan, id, open: false, lease: None, overtaken: false, told: None, unanswered: 0, alarms: 0 }
    }

    pub(super) fn end(&mut self) {
        self.open = false;
        self.lease = None;
    }

    pub(super) fn next_alarm(&mut self) -> u64 {
        self.alarms += 1;
        self.alarms
    }
}

// What it asks for.
impl World<'_> {
    pub(super) fn claim(&mut self, who: usize, post: Post) {
        if !self.is_up(who) || self.parties[who].lease.is_some_and(|lease| lease.tenure.is_none()) {
            return;
        }
        if !self.parties[who].open {
            self.begin(who);
        }
        let claim = self.claim_of(who, self.parties[who].id);
        self.watch.claims.entry(claim.id).or_insert_with(|| claim.clone());
        self.send(who, claim.into(), post);
    }

    /// A new attempt.
    fn begin(&mut self, who: usize) {
        let id = self.attempt_id();
        let plan = self.parties[who].plan.clone();
        let alarms = self.parties[who].alarms;
        self.parties[who] = Party { open: true, alarms, ..Party::new(plan, id) };
    }

    pub(super) fn renew(&mut self, who: usize, not_after: Option<i16>, post: Post) {
        let Some(lease) = self.lease(who) else { return };
        let not_after_ms = not_after.map(|ms| (DAY + self.now / 1000).saturating_add_signed(ms.into()));
        self.send(who, Renew { id: lease.id, fence: lease.fence, tenure: lease.tenure, not_after_ms }.into(), post);
    }

    pub(super) fn release(&mut self, who: usize, linger: Option<u16>, remember: bool, post: Post) {
        let Some(lease) = self.lease(who) else { return };
        if lease.tenure.is_some() {
            let linger = linger.map(|ms| Span::from_millis(ms.into()));
            let remember = (remember || self.parties[who].unanswered > 0).then_some(REMEMBER);
            self.send(who, Release { id: lease.id, tenure: lease.tenure, linger, remember }.into(), post);
        }
        self.stop(who);
    }

    pub(super) fn leave(&mut self, who: usize, post: Post) {
        if !self.parties[who].open || !self.is_up(who) {
            return;
        }
        if self.parties[who].lease.is_some() {
            return self.release(who, None, true, post);
        }
        let id = self.parties[who].id;
        self.send(who, Leave { id, remember: Some(REMEMBER) }.into(), post);
        self.stop(who);
    }

    pub(super) fn hand_over(&mut self, who: usize, to: usize, post: Post) {
        let Some(lease) = self.lease(who) else { return };
        if self.parties[to].open || !self.is_up(to) || lease.tenure.is_none() {
            return;
        }
        self.begin(to);
        let receiver = self.parties[to].id;
        // So that a late claim of the receiver's can be tried.
        let claim = self.claim_of(to, receiver);
        self.watch.claims.insert(receiver, claim);
        let command = HandOver { id: lease.id, fence: lease.fence, tenure: lease.tenure, to: receiver };
        self.send(who, command.into(), post);
        self.stop(who);
    }

    /// Gives another a ticket.
    pub(super) fn share(&mut self, who: usize, to: usize) {
        let Some(lease) = self.lease(who) else { return };
        if self.parties[to].open || !self.is_up(to) || who == to {
            return;
        }
        self.begin(to);
        self.parties[to].lease = Some(Lease { tenure: None, until: 0, ..lease });
        let post = self.usual_post();
        self.renew(to, None, post);
    }

    /// What it may act on.
    fn lease(&self, who: usize) -> Option<Lease> {
        let party = &self.parties[who];
        party.lease.filter(|lease| party.open && self.is_up(who) && (lease.until == 0 || lease.until > self.now))
    }

    /// It no longer relies on what it has; nor do those that share it, if it is the owner that stops.
    fn stop(&mut self, who: usize) {
        let party = &self.parties[who];
        let owns = party.lease.is_none_or(|lease| lease.tenure.is_some()) && !party.overtaken;
        let id = party.lease.map_or(party.id, |lease| lease.id);
        if owns {
            self.beliefs.close(id);
        }
        self.beliefs.forget(who);
        self.parties[who].end();
    }

    /// It lost what it had, and says so: a request of its may still be under way.
    pub(super) fn lose(&mut self, who: usize) {
        let party = &self.parties[who];
        let id = party.lease.map_or(party.id, |lease| lease.id);
        let tenure = party.lease.map_or(Some(0), |lease| lease.tenure);
        if let Some(tenure) = tenure {
            let post = self.usual_post();
            let release = Release { id, tenure: Some(tenure), linger: None, remember: Some(REMEMBER) };
            self.send(who, release.into(), post);
        }
        self.stop(who);
    }

    fn send(&mut self, who: usize, command: Command, post: Post) {
        let party = &mut self.parties[who];
        party.unanswered += 1 + u32::from(post.again.is_some());
        let sender = Sender { who, id: party.id, sent: self.now };
        self.post(command, Some(sender), post);
    }
}

// What it hears.
impl World<'_> {
    pub(super) fn hear(&mut self, reply: Reply, command: &Command, sender: Sender) -> Verdict {
        let who = sender.who;
        if let (Reply::HandOver(HandOverReply::Done { fence, .. }), Command::HandOver(hand_over)) = (&reply, command) {
            self.receive_ticket(hand_over.to, *fence);
            return Ok(());
        }
        let party = &mut self.parties[who];
        if party.id == sender.id {
            party.unanswered = party.unanswered.saturating_sub(1);
        }
        if party.id != sender.id || !party.open {
            return Ok(());
        }
        match reply {
            Reply::Claim(ClaimReply::Granted(grant)) => self.granted(who, grant, sender.sent),
            Reply::Claim(ClaimReply::Queued(queued)) => {
                let beat = self.parties[who].plan.waiter_ttl.map_or(u64::MAX, |ttl| ttl * 1000 / 3);
                let turn = queued.wake_in.map_or(u64::MAX, |wait| micros(wait) + 1000);
                self.set_alarm(who, self.now.saturating_add(beat.min(turn)));
                Ok(())
            }
            Reply::Claim(ClaimReply::Held(_) | ClaimReply::Mismatch { .. } | ClaimReply::Gone) => {
                self.beliefs.forget(who);
                self.parties[who].end();
                Ok(())
            }
            Reply::Hold(HoldReply::Held { left }) => self.extend(who, sender.sent, left.map(micros)),
            Reply::Hold(HoldReply::Lost(_)) => {
                self.lose(who);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn granted(&mut self, who: usize, grant: Grant, sent: u64) -> Verdict {
        if self.parties[who].lease.is_none() {
            let (id, fence, tenure) = (grant.id, grant.fence, Some(grant.tenure));
            self.parties[who].lease = Some(Lease { id, fence, tenure, until: 0 });
        }
        self.extend(who, sent, grant.left.map(micros))
    }

    /// It may rely on it for so long since the request was sent.
    fn extend(&mut self, who: usize, sent: u64, left: Option<u64>) -> Verdict {
        let party = &mut self.parties[who];
        let Some(lease) = &mut party.lease else { return Ok(()) };
        let margin = party.plan.ttl.unwrap_or_default() * 10 + 2_000;
        let until = left.map_or(u64::MAX / 2, |left| (sent + left).saturating_sub(margin));
        // A deadline that has passed is final.
        if until.max(lease.until) <= self.now || (1..=self.now).contains(&lease.until) {
            self.lose(who);
            return Ok(());
        }
        lease.until = until.max(lease.until);
        let (id, until) = (lease.id, lease.until);
        self.believe(who, id, until)?;
        if self.ending {
            self.take_turn(who);
        } else {
            let span = until.min(self.now + 100_000_000) - self.now;
            self.set_alarm(who, self.now + (span / 3).max(1_000));
        }
        Ok(())
    }

    fn believe(&mut self, who: usize, id: AttemptId, until: u64) -> Verdict {
        if self.parties[who].overtaken {
            return Ok(());
        }
        self.beliefs.believe(self.now, self.script.capacity, id, Believer::Party(who), until)
    }

    /// A push told it of an offer: it holds from then on.
    pub(super) fn offered(&mut self, who: usize, fence: u64, until: u64) -> Verdict {
        let post = self.usual_post();
        let party = &mut self.parties[who];
        let id = party.id;
        party.told = Some(fence);
        if party.lease.is_some() || until <= self.now {
            self.claim(who, post);
            return Ok(());
        }
        party.lease = Some(Lease { id, fence, tenure: Some(0), until });
        self.believe(who, id, until)?;
        if self.ending {
            self.take_turn(who);
        } else if self.parties[who].plan.diligent {
            self.renew(who, None, post);
        } else {
            self.claim(who, post);
        }
        Ok(())
    }

    fn receive_ticket(&mut self, to: AttemptId, fence: u64) {
        let Some(who) = self.parties.iter().position(|party| party.open && party.id == to) else { return };
        if self.is_up(who) && self.parties[who].lease.is_none() {
            self.parties[who].lease = Some(Lease { id: to, fence, tenure: Some(0), until: 0 });
            let post = self.usual_post();
            self.renew(who, None, post);
        }
    }

    /// Somebody attached to the lease: its orchestrators before no longer count, whether they know or not.
    pub(super) fn overtake(&mut self, by: usize, id: AttemptId) {
        for who in (0..self.parties.len()).filter(|who| *who != by) {
            let party = &mut self.parties[who];
            let orchestrates = party.lease.is_some_and(|lease| lease.id == id && lease.tenure.is_some());
            if orchestrates || party.id == id {
                party.overtaken = true;
                self.beliefs.forget(who);
            }
        }
        self.beliefs.reopen(id);
    }

    pub(super) fn alarm(&mut self, who: usize, number: u64) {
        let party = &self.parties[who];
        if !party.open || party.alarms != number || !(party.plan.diligent || self.ending) {
            return;
        }
        if self.ending {
            return self.take_turn(who);
        }
        let post = self.usual_post();
        match self.parties[who].lease {
            Some(lease) if lease.until > 0 && lease.until <= self.now => self.lose(who),
            Some(_) => self.renew(who, None, post),
            None => self.claim(who, post),
        }
    }

    /// The story ends: whoever has it gives it back, whoever waits claims again.
    pub(super) fn take_turn(&mut self, who: usize) {
        if !self.parties[who].open || !self.is_up(who) {
            return;
        }
        let post = self.usual_post();
        match self.parties[who].lease {
            Some(_) if self.lease(who).is_some() => self.release(who, None, true, post),
            Some(_) => self.lose(who),
            None => self.claim(who, post),
        }
    }
}
