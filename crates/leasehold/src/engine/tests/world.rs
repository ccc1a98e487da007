//! Plays a script: one record, its clients, and a network that delays, doubles and loses.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Verdict,
    beliefs::{Beliefs, Believer},
    clock::{At, micros},
    ensure, number,
    party::Party,
    probe::probe,
    script::{Act, Aim, CLIENTS, Post, Script},
    watch::{Seen, Watch},
};
use crate::{
    engine::{
        Applied, Break, BreakReply, Claim, ClaimReply, Command, News, Queueing, Record, Release, ReleaseReply, Reply,
        Silence, Span, Wake, Who, apply,
    },
    id::{AttemptId, ClientId},
    view::Phase,
};

/// How long an ended attempt is remembered: longer than any message is under way.
pub(super) const REMEMBER: Span = Span::from_millis(2_000);

pub(super) struct World<'a> {
    pub(super) script: &'a Script,
    pub(super) now: u64,
    pub(super) record: Record,
    pub(super) clients: Vec<Client>,
    pub(super) parties: Vec<Party>,
    pub(super) beliefs: Beliefs,
    pub(super) watch: Watch,
    /// What happened, if it is to be told.
    pub(super) told: Option<Vec<String>>,
    /// The story is over: whoever still lives takes its turn and goes.
    pub(super) ending: bool,
    floor: u64,
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: ClientId,
    pub(super) dead: bool,
    /// Dead, and yet something receives what is sent to it.
    stopped: bool,
    paused_until: u64,
    deaf_until: u64,
}

/// Who sent a request, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) who: usize,
    /// Its attempt then.
    pub(super) id: AttemptId,
    pub(super) sent: u64,
}

#[derive(Debug)]
enum Event {
    Arrive { command: Command, sender: Option<Sender>, back: Option<u64> },
    Reply { reply: Reply, command: Command, sender: Sender },
    Push { client: usize, wake: Wake, until: u64 },
    Alarm { who: usize, number: u64 },
}

impl<'a> World<'a> {
    pub(super) fn new(script: &'a Script) -> Self {
        let mut world = Self {
            script,
            now: 1_000_000,
            record: Record::default(),
            clients: Vec::new(),
            parties: Vec::new(),
            beliefs: Beliefs::default(),
            watch: Watch::default(),
            told: None,
            ending: false,
            floor: 1,
            events: BTreeMap::new(),
            count: 0,
        };
        for _ in 0..CLIENTS {
            let id = world.client_id();
            world.clients.push(Client { id, dead: false, stopped: false, paused_until: 0, deaf_until: 0 });
        }
        for plan in &script.plans {
            let id = world.attempt_id();
            world.parties.push(Party::new(plan.clone(), id));
        }
        world
    }

    pub(super) fn play(&mut self) -> Verdict {
        for act in &self.script.acts {
            self.act(act)?;
        }
        Ok(())
    }

    fn act(&mut self, act: &Act) -> Verdict {
        match *act {
            Act::Wait(span) => return self.advance(self.now + u64::from(span)),
            Act::Claim(who, post) => self.claim(who, post),
            Act::Renew(who, not_after, post) => self.renew(who, not_after, post),
            Act::Release(who, linger, post) => self.release(who, linger.linger, linger.remember, post),
            Act::Leave(who, post) => self.leave(who, post),
            Act::HandOver(who, to, post) => self.hand_over(who, to, post),
            Act::Share(who, to) => self.share(who, to),
            Act::Break(aim, post) => self.break_one(aim, post),
            Act::Misfit(who, post) => {
                let id = self.attempt_id();
                let mut claim = self.claim_of(who, id);
                if claim.permits.is_multiple_of(2) {
                    claim.capacity += 1;
                } else {
                    claim.permits = claim.capacity + 1;
                }
                self.post(claim.into(), None, post);
            }
            Act::Die(client, stopped) => {
                self.clients[client].dead = true;
                self.clients[client].stopped = stopped.0;
                self.end_parties(client);
            }
            Act::Pause(client, span) => self.clients[client].paused_until = self.now + u64::from(span),
            Act::Deafen(client, span) => self.clients[client].deaf_until = self.now + u64::from(span),
            Act::Reconnect(client) => self.clients[client].id = self.client_id(),
            Act::Restart(client) => {
                self.end_parties(client);
                let id = self.client_id();
                self.clients[client] = Client { id, dead: false, stopped: false, paused_until: 0, deaf_until: 0 };
            }
        }
        Ok(())
    }

    fn break_one(&mut self, aim: Aim, post: Post) {
        let fence = match self.watch.leases.as_slice() {
            [.., (_, earlier), _] if aim.stale => *earlier,
            [.., (_, last)] => *last,
            [] => 1,
        };
        self.post(Break { fence, now: aim.now }.into(), None, post);
    }

    fn end_parties(&mut self, client: usize) {
        for who in 0..self.parties.len() {
            if self.parties[who].plan.client == client {
                self.parties[who].end();
                self.beliefs.forget(who);
            }
        }
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, until: u64) -> Verdict {
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= until
        {
            self.now = entry.key().0;
            let event = entry.remove();
            self.happen(event)?;
            ensure!(self.count < 20_000, "the parties keep each other busy for ever");
        }
        self.now = until;
        Ok(())
    }

    /// When something happens next.
    pub(super) fn next_event(&self) -> Option<u64> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    fn happen(&mut self, event: Event) -> Verdict {
        let client = match &event {
            Event::Arrive { .. } => None,
            Event::Reply { sender: Sender { who, .. }, .. } | Event::Alarm { who, .. } => {
                Some(self.parties[*who].plan.client)
            }
            Event::Push { client, .. } => Some(*client),
        };
        if let Some(client) = client.map(|client| &self.clients[client]) {
            if client.dead {
                return Ok(());
            }
            if client.paused_until > self.now && !self.ending {
                self.schedule(client.paused_until, event);
                return Ok(());
            }
        }
        match event {
            Event::Arrive { command, sender, back } => self.arrive(command, sender, back),
            Event::Reply { reply, command, sender } => self.hear(reply, &command, sender),
            Event::Push { wake, until, .. } => self.wake(wake, until),
            Event::Alarm { who, number } => {
                self.alarm(who, number);
                Ok(())
            }
        }
    }

    /// One step of the store.
    fn arrive(&mut self, command: Command, sender: Option<Sender>, back: Option<u64>) -> Verdict {
        let at = At { now: self.now, floor: self.floor };
        let before = self.record.clone();
        let applied = apply(&mut self.record, &command, &at);
        if let Some(told) = &mut self.told {
            told.push(format!("{:>9} {}", self.now, tell(&command, &applied, sender)));
        }
        let seen = Seen { before: &before, after: &self.record, command: &command, applied: &applied, at };
        self.watch.step(&seen)?;
        probe(&self.watch, &seen)?;
        self.beliefs.permits.extend(self.record.holders.iter().map(|holder| (holder.id, holder.permits)));
        self.consequences(&before, &command, &applied.reply, sender)?;
        self.deliver(&applied, at);
        // A store keeps nothing of an idle name but that its fences grow.
        if self.record.is_idle() {
            self.floor = self.floor.max(self.record.fence + 1);
            self.record = Record::default();
        }
        if let (Some(sender), Some(back)) = (sender, back) {
            self.schedule(self.now + back, Event::Reply { reply: applied.reply, command, sender });
        }
        Ok(())
    }

    /// What a step means for those who rely on the name and have not heard of it.
    fn consequences(&mut self, before: &Record, command: &Command, reply: &Reply, sender: Option<Sender>) -> Verdict {
        match (command, reply) {
            (Command::Break(Break { now: true, fence }), Reply::Break(BreakReply::Broken { .. })) => {
                // The operator takes the risk that the holder is still at work.
                if let Some(holder) = before.holders.iter().find(|holder| holder.fence == *fence) {
                    self.beliefs.close(holder.id);
                }
            }
            (Command::Release(Release { id, linger: Some(span), .. }), Reply::Release(ReleaseReply::Released))
                if before.holder(*id).is_some_and(|holder| holder.phase != Phase::Broken) =>
            {
                let until = self.now + span.duration().map_or(u64::MAX / 2, micros);
                self.beliefs.believe(self.now, self.script.capacity, *id, Believer::Lingering, until)?;
            }
            (Command::Claim(claim), Reply::Claim(ClaimReply::Granted(grant))) if grant.id != claim.id => {
                let attached = before.holder(grant.id).is_none_or(|holder| holder.tenure != grant.tenure);
                if let (true, Some(sender)) = (attached, sender) {
                    self.overtake(sender.who, grant.id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends the hints, and passes over whom nobody receives for.
    fn deliver(&mut self, applied: &Applied, at: At) {
        for wake in applied.wakes.clone() {
            let lag = self.lag();
            let client = self.clients.iter().position(|client| client.id == wake.client);
            let receives = |client: &Client| {
                if client.dead { client.stopped } else { client.deaf_until <= self.now || self.ending }
            };
            if let Some(client) = client.filter(|index| receives(&self.clients[*index])) {
                let offer = self.record.holders.iter().find(|holder| wake.news.offer() == Some(holder.fence));
                let left = offer.and_then(|holder| at.left_us(&holder.term)).unwrap_or_default();
                let until = self.now + (left - left / 100).saturating_sub(2_000);
                self.schedule(self.now + lag, Event::Push { client, wake, until });
            } else {
                let command = Command::Silence(Silence { client: wake.client, offer: wake.news.offer() });
                // It takes a while to notice.
                self.schedule(self.now + lag * 8, Event::Arrive { command, sender: None, back: None });
            }
        }
    }

    /// Sends a request on its way.
    pub(super) fn post(&mut self, command: Command, sender: Option<Sender>, post: Post) {
        let back = post.back.map(u64::from);
        let arrival = self.now + u64::from(post.out);
        if let Some(again) = post.again {
            let command = command.clone();
            self.schedule(arrival + u64::from(again), Event::Arrive { command, sender, back });
        }
        self.schedule(arrival, Event::Arrive { command, sender, back });
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    pub(super) fn set_alarm(&mut self, who: usize, at: u64) {
        let number = self.parties[who].next_alarm();
        self.schedule(at, Event::Alarm { who, number });
    }

    /// How long the next message takes.
    pub(super) fn lag(&mut self) -> u64 {
        self.count += 1;
        let lags = &self.script.lags;
        if self.ending { 300 } else { u64::from(lags[usize::try_from(self.count).expect("small") % lags.len()]) }
    }

    pub(super) fn usual_post(&mut self) -> Post {
        let mut lag = || u32::try_from(self.lag()).expect("small");
        Post { out: lag(), back: Some(lag()), again: None }
    }

    pub(super) fn is_up(&self, who: usize) -> bool {
        let client = &self.clients[self.parties[who].plan.client];
        !client.dead && (client.paused_until <= self.now || self.ending)
    }

    pub(super) fn claim_of(&self, who: usize, id: AttemptId) -> Claim {
        let plan = &self.parties[who].plan;
        let ttl = plan.ttl.map_or(Span::NEVER, Span::from_millis);
        let window = Span::from_millis(plan.ttl.map_or(1_000, |ttl| ttl / 3));
        Claim {
            id,
            permits: plan.permits,
            capacity: self.script.capacity,
            ttl,
            max_hold: plan.max_hold.map(Span::from_millis),
            client: plan.reachable.then_some(self.clients[plan.client].id),
            told: self.parties[who].told,
            queue: plan.waiter_ttl.map(|ttl| Queueing { waiter_ttl: Span::from_millis(ttl), window }),
            work: plan.work.then(|| "work".into()),
            who: Arc::new(Who { owner: format!("party {who}").into(), reason: None }),
        }
    }

    pub(super) fn attempt_id(&mut self) -> AttemptId {
        self.count += 1;
        AttemptId::from_bits(u128::from(self.count))
    }

    fn client_id(&mut self) -> ClientId {
        self.count += 1;
        ClientId::from_bits(self.count)
    }
}

// How a story ends.
impl World<'_> {
    /// I5: everyone who lives and waits is served, once nobody holds on.
    pub(super) fn everyone_is_served(&mut self) -> Verdict {
        self.advance(self.now + 1_000_000)?;
        self.ending = true;
        let at = At { now: self.now, floor: self.floor };
        let mut longest = 0;
        for holder in self.record.holders.clone() {
            match at.left_us(&holder.term).filter(|left| *left < 3_000_000) {
                Some(left) => longest = longest.max(left),
                None => self.arrive(Break { fence: holder.fence, now: true }.into(), None, None)?,
            }
        }
        for who in 0..self.parties.len() {
            self.take_turn(who);
        }
        // Windows, heartbeats and waiter ttls of the dead: none is longer than a second.
        let end = self.now + longest + 8_000_000;
        while self.parties.iter().any(|party| party.open)
            && let Some(next) = self.next_event()
            && next < end
        {
            self.advance(next)?;
        }
        let waiting: Vec<usize> =
            (0..self.parties.len()).filter(|who| self.parties[*who].open && self.is_up(*who)).collect();
        ensure!(waiting.is_empty(), "I5: the parties {waiting:?} live and were not served");
        Ok(())
    }

    /// I8: when all are gone and time has passed, nothing is left.
    pub(super) fn nothing_is_left(&mut self) -> Verdict {
        for client in &mut self.clients {
            client.dead = true;
        }
        for who in 0..self.parties.len() {
            self.parties[who].end();
            self.beliefs.forget(who);
        }
        self.advance(self.now + 2_000_000)?;
        for holder in self.record.holders.clone() {
            if holder.term.span == Span::NEVER {
                self.arrive(Break { fence: holder.fence, now: false }.into(), None, None)?;
            }
        }
        self.advance(self.now + 200_000_000)?;
        let nobody = Silence { client: ClientId::from_bits(u64::MAX), offer: None };
        self.arrive(Command::Silence(nobody), None, None)?;
        ensure!(self.record.is_idle(), "I8: {:?} is left", self.record);
        Ok(())
    }
}

impl World<'_> {
    fn wake(&mut self, wake: Wake, until: u64) -> Verdict {
        let Some(who) = self.parties.iter().position(|party| party.open && party.id == wake.id) else { return Ok(()) };
        match wake.news {
            News::Offer { fence } => self.offered(who, fence, until),
            News::Next { in_ms } => {
                self.set_alarm(who, self.now + in_ms * 1000 + 1000);
                Ok(())
            }
            News::Broken => {
                self.lose(who);
                Ok(())
            }
        }
    }
}

/// One line of the story.
fn tell(command: &Command, applied: &Applied, sender: Option<Sender>) -> String {
    let (what, id) = match command {
        Command::Claim(claim) => (format!("claim for {:?} by {:?}", claim.permits, claim.client), Some(claim.id)),
        Command::Renew(renew) => (format!("renew {} of {:?}", renew.fence, renew.tenure), Some(renew.id)),
        Command::Check(check) => ("check".into(), Some(check.id)),
        Command::Release(release) => (format!("release {:?}", release.linger), Some(release.id)),
        Command::Leave(leave) => ("leave".into(), Some(leave.id)),
        Command::HandOver(hand_over) => (format!("hand over to {}", number(hand_over.to)), Some(hand_over.id)),
        Command::Break(request) => (format!("{request:?}"), None),
        Command::Silence(silence) => (format!("{silence:?}"), None),
    };
    let wakes: Vec<_> = applied.wakes.iter().map(|wake| (number(wake.id), wake.news)).collect();
    let who = sender.map_or_else(String::new, |sender| format!("party {} ", sender.who));
    let id = id.map_or_else(String::new, number);
    format!("{who}{id} {what}\n          -> {:?} {wakes:?}", applied.reply)
}
