//! What is asked, drawn at random.

use std::sync::Arc;

use super::pair::{Pair, RECEIVERS};
use crate::{
    engine::{Break, Check, Claim, Command, HandOver, Leave, Queueing, Release, Renew, Silence, Span, Who},
    id::{AttemptId, ClientId},
};

/// How many compete.
const PARTIES: u64 = 7;
/// How many clients there are, the deaf included.
const CLIENTS: u64 = RECEIVERS + 2;

pub(super) struct Story {
    random: u64,
    capacity: u64,
    /// How much of this story is about strangers.
    strange: u64,
    /// Whether anything lasts for ever in it.
    pub(super) endless: bool,
    ids: Vec<u64>,
    fresh: u64,
    /// Id, fence and tenure of some who held.
    leases: Vec<(AttemptId, u64, u32)>,
}

impl Story {
    pub(super) fn new(seed: u64) -> Self {
        let mut story = Self {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF1,
            capacity: 1,
            strange: 0,
            endless: seed.is_multiple_of(2),
            ids: (0..PARTIES).collect(),
            fresh: PARTIES,
            leases: Vec::new(),
        };
        if story.chance(40) {
            story.capacity = 1 + story.below(4);
        }
        story.strange = [0, 0, 3, 12][usize::try_from(story.below(4)).unwrap()];
        story
    }

    /// Xorshift: the same on every machine.
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn maybe<T>(&mut self, percent: u64, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(percent).then(|| value(self))
    }

    fn one_of<const N: usize>(&mut self, values: [u64; N]) -> u64 {
        values[usize::try_from(self.below(N as u64)).unwrap()]
    }

    fn span<const N: usize>(&mut self, values: [u64; N], never: u64) -> Span {
        if self.endless && self.chance(never) { Span::NEVER } else { Span::from_millis(self.one_of(values)) }
    }

    /// Lets time pass, and something happen.
    pub(super) async fn next(&mut self, pair: &mut Pair) -> Result<(), String> {
        let pause = match self.below(100) {
            0..30 => 0,
            30..70 => self.below(3_000),
            70..90 => self.below(60_000),
            90..97 => self.below(400_000),
            97..99 => self.below(4_000_000),
            _ => self.one_of([100, 100, 100, 110_000]) * 1_000_000,
        };
        pair.now += pause;
        if self.chance(self.strange) {
            match self.below(3) {
                0 => {
                    let span = self.maybe(80, |story| story.below(300));
                    let force = self.chance(30);
                    return pair.intrude(force, span).await;
                }
                1 => pair.remove().await,
                _ => {}
            }
        }
        if self.chance(10) {
            return pair.look().await;
        }
        for holder in &pair.record.holders {
            let lease = (holder.id, holder.fence, holder.tenure);
            if holder.fence != 0 && !self.leases.contains(&lease) {
                self.leases.push(lease);
            }
        }
        let command = self.command(pair);
        pair.step(command).await.map(drop)
    }

    fn id(&mut self) -> AttemptId {
        let who = usize::try_from(self.below(PARTIES)).unwrap();
        AttemptId::from_bits(u128::from(self.ids[who]))
    }

    /// Mostly one that is not long ago.
    fn lease(&mut self) -> (AttemptId, u64, u32) {
        if self.leases.is_empty() || self.chance(3) {
            return (self.id(), 1, 0);
        }
        let most = if self.chance(15) { 12 } else { 2 };
        let back = usize::try_from(self.below(most)).unwrap() % self.leases.len();
        self.leases[self.leases.len() - 1 - back]
    }

    fn client(&mut self, party: u64) -> Option<ClientId> {
        let number = if self.chance(80) { party } else { self.below(CLIENTS) };
        self.maybe(88, |_| ClientId::from_bits(1 + number % CLIENTS))
    }

    fn command(&mut self, pair: &Pair) -> Command {
        match self.below(100) {
            0..48 => self.claim(pair).into(),
            48..60 => {
                let (id, fence, tenure) = self.lease();
                let tenure = self.maybe(50, |story| if story.chance(90) { tenure } else { tenure + 1 });
                let not_after_ms = self.maybe(25, |story| pair.now / 1000 + story.below(450) - 50);
                Renew { id, fence, tenure, not_after_ms }.into()
            }
            60..66 => {
                let (id, fence, _) = self.lease();
                Check { id, fence }.into()
            }
            66..80 => {
                let (held, _, tenure) = self.lease();
                let id = if self.chance(80) { held } else { self.id() };
                let tenure = self.maybe(50, |story| if story.chance(90) { tenure } else { tenure + 1 });
                let linger = self.maybe(20, |story| story.span([1, 50, 300], 5));
                let remember = self.remember();
                Release { id, tenure, linger, remember }.into()
            }
            80..87 => {
                let (held, ..) = self.lease();
                let id = if self.chance(30) { held } else { self.id() };
                Leave { id, remember: self.remember() }.into()
            }
            87..93 => {
                let (id, fence, tenure) = self.lease();
                let tenure = self.maybe(50, |story| if story.chance(90) { tenure } else { tenure + 1 });
                let to = if self.chance(70) { self.fresh_id() } else { self.id() };
                HandOver { id, fence, tenure, to }.into()
            }
            93..97 => {
                let (_, fence, _) = self.lease();
                Break { fence, now: self.chance(50) }.into()
            }
            _ => {
                let client = ClientId::from_bits(1 + self.below(CLIENTS));
                let offer = self.maybe(60, |story| story.lease().1);
                if let Some(holder) = pair.record.holders.last()
                    && let Some(client) = holder.client
                    && self.chance(60)
                {
                    return Command::Silence(Silence { client, offer: Some(holder.fence) });
                }
                Command::Silence(Silence { client, offer })
            }
        }
    }

    fn remember(&mut self) -> Option<Span> {
        self.maybe(50, |story| story.span([20, 400, 2_000, 90_000], 3))
    }

    fn fresh_id(&mut self) -> AttemptId {
        let who = usize::try_from(self.below(PARTIES)).unwrap();
        self.ids[who] = self.fresh;
        self.fresh += 1;
        AttemptId::from_bits(u128::from(self.ids[who]))
    }

    fn claim(&mut self, pair: &Pair) -> Claim {
        let who = self.below(PARTIES);
        if self.chance(20) {
            self.ids[usize::try_from(who).unwrap()] = self.fresh;
            self.fresh += 1;
        }
        let mut id = AttemptId::from_bits(u128::from(self.ids[usize::try_from(who).unwrap()]));
        // A late one.
        if self.chance(8) {
            id = self.lease().0;
        }
        let capacity = if self.chance(96) { self.capacity } else { 1 + self.below(4) };
        let permits = if self.chance(98) { 1 + self.below(capacity) } else { capacity + 1 };
        let told = pair.record.holders.first().map(|holder| holder.fence);
        Claim {
            id,
            permits: u32::try_from(permits).unwrap(),
            capacity: u32::try_from(capacity).unwrap(),
            ttl: self.span([60, 200, 500, 2_000], 6),
            max_hold: self.maybe(20, |story| story.span([1, 30, 90, 600], 5)),
            client: self.client(who),
            told: told.filter(|_| self.chance(30)),
            queue: self.maybe(85, |story| Queueing {
                waiter_ttl: story.span([1, 150, 600, 600, 3_000], 3),
                window: story.span([0, 20, 70, 70, 200], 3),
            }),
            work: self.maybe(20, |_| "work".into()),
            who: Arc::new(Who { owner: format!("party {who}").into(), reason: self.maybe(20, |_| "a+b:c".into()) }),
        }
    }
}
