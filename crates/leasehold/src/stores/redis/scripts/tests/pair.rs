//! A record of the engine and a real server, asked the same at the same virtual time.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold_testkit::redis_server::RedisServer;

use super::super::{
    Kind,
    arguments::{arguments, client},
    replies::{news, reply, view},
};
use crate::{
    clock::SystemClock,
    engine::{
        self, ClaimReply, Command, Evidence, Holder, Left, News, Record, Reply, Silence, Span, Stamp, Term, Wake, Who,
    },
    entropy::SystemEntropy,
    id::{AttemptId, ClientId},
    name::Name,
    stores::redis::{
        connection::{Config, Connection, Limits, Push},
        keys::{NameKeys, Prefix},
        resp::{Arg, Reply as Answer, Script},
        url::RedisUrl,
    },
    view::{HolderView, LeaseView, Phase},
};

/// Clients that somebody receives for; those of larger numbers are deaf.
pub(super) const RECEIVERS: u64 = 3;
/// Who never asks for anything.
const NOBODY: u64 = 99;
/// In the future, so that the server itself lets nothing expire: the tests do, by virtual time.
const BEGINNING: u64 = 2_500_000_000_000_000;
/// What a stranger writes.
const STRANGER: &str = "stranger";

/// Sets the time, and removes what has expired by it, as the server would.
const TICK: &str = "redis.call('MSET', 'test:s', ARGV[1], 'test:us', ARGV[2]) \
    local ms = ARGV[1] * 1000 + math.floor(ARGV[2] / 1000) \
    for _, key in ipairs(KEYS) do local at = redis.call('PEXPIRETIME', key) \
    if at >= 0 and ms > at then redis.call('DEL', key) end end return redis.call('EXISTS', KEYS[1])";

/// What is known of time at one moment.
struct At(u64);

impl Evidence for At {
    fn now(&self) -> Stamp {
        Stamp(self.0)
    }

    fn left(&self, term: &Term) -> Left {
        let Some(span) = term.span.duration() else { return Left::Forever };
        match span.checked_sub(self.since(term.start)) {
            None | Some(Duration::ZERO) => Left::Over,
            Some(left) => Left::For(left),
        }
    }

    fn since(&self, stamp: Stamp) -> Duration {
        Duration::from_micros(self.0.saturating_sub(stamp.0))
    }

    fn wall_ms(&self) -> u64 {
        self.0 / 1000
    }

    fn fence_floor(&self) -> u64 {
        self.0
    }
}

type Told = (ClientId, AttemptId, News);

pub(super) struct Pair {
    connection: Connection,
    heard: Arc<Mutex<Vec<Push>>>,
    scripts: Vec<Script>,
    tick: Script,
    name: Name,
    keys: NameKeys,
    pub(super) record: Record,
    pub(super) now: u64,
    /// The story so far.
    pub(super) told: Vec<String>,
}

impl Pair {
    pub(super) async fn open(server: &RedisServer, texts: &[String]) -> Self {
        let heard: Arc<Mutex<Vec<Push>>> = Arc::default();
        let list = heard.clone();
        let channels =
            (1..=RECEIVERS).map(|bits| format!("leasehold:{}", client(ClientId::from_bits(bits))).into_bytes().into());
        let config = Config {
            target: RedisUrl::parse(&server.url()).unwrap().target,
            name: "leasehold-test".into(),
            channels: channels.collect(),
            on_push: Arc::new(move |push| list.lock().unwrap().push(push)),
            limits: Limits {
                connect: Duration::from_secs(10),
                answer: Duration::from_secs(20),
                silence: Duration::from_mins(1),
            },
            clock: SystemClock::shared(),
            entropy: Arc::new(SystemEntropy),
        };
        let scripts = texts.iter().map(|text| {
            assert_eq!(text.matches("redis.call('TIME')").count(), 1);
            Script::new(text.replace("redis.call('TIME')", "redis.call('MGET', 'test:s', 'test:us')").leak())
        });
        Self {
            connection: Connection::open(config).await.unwrap(),
            heard,
            scripts: scripts.collect(),
            tick: Script::new(TICK),
            name: Name::new("none").unwrap(),
            keys: Prefix::new("lock:").unwrap().keys("none"),
            record: Record::default(),
            now: BEGINNING,
            told: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, number: u64) {
        self.name = Name::new(&format!("story {number}")).unwrap();
        self.keys = Prefix::new("lock:").unwrap().keys(self.name.as_str());
        self.record = Record::default();
        self.told.clear();
        self.heard.lock().unwrap().clear();
    }

    async fn run(&self, kind: Kind, args: &[String]) -> Result<Answer, String> {
        let keys: Vec<Arg<'_>> = self.keys.iter().map(|key| key.as_str().into()).collect();
        let args: Vec<Arg<'_>> = args.iter().map(|arg| arg.as_str().into()).collect();
        let (seconds, micros) = ((self.now / 1_000_000).to_string(), (self.now % 1_000_000).to_string());
        let time = [seconds.as_str().into(), micros.as_str().into()];
        let link = self.connection.link().map_err(|error| error.to_string())?;
        link.eval(&self.tick, &keys, &time).await.map_err(|error| error.to_string())?;
        link.eval(&self.scripts[kind as usize], &keys, &args).await.map_err(|error| error.to_string())
    }

    async fn ask(&self, parts: &[&str]) -> Answer {
        let parts: Vec<Arg<'_>> = parts.iter().map(|part| Arg::from(*part)).collect();
        self.connection.link().unwrap().call(&parts.as_slice()).await.unwrap()
    }

    /// One command, to both.
    pub(super) async fn step(&mut self, command: Command) -> Result<Reply, String> {
        if let (Command::Claim(claim), Some(_)) = (&command, self.stranger()) {
            Box::pin(self.step(Command::Silence(Silence { client: ClientId::from_bits(NOBODY), offer: None }))).await?;
            // A stranger has no capacity that a claim could differ from.
            if self.record.queue.is_empty() {
                self.record.capacity = claim.capacity;
            }
        }
        let (meant, told) = self.engine(&command);
        let kind = Kind::from(&command);
        let answer = self.run(kind, &arguments(&command)).await;
        self.told.push(format!("{:>9} {command:?}\n          -> {meant:?} {told:?}", self.now - BEGINNING));
        let answer = reply(kind, &answer?).map_err(|error| error.to_string())?;
        if answer != meant {
            return Err(format!("{command:?} should be answered {meant:?}, not {answer:?}"));
        }
        let heard = self.heard()?;
        if heard != told {
            return Err(format!("{command:?} should tell {told:?}, not {heard:?}"));
        }
        Ok(meant)
    }

    /// Compares what anyone may see.
    pub(super) async fn look(&mut self) -> Result<(), String> {
        let mut meant = engine::view(&self.name, &self.record, &At(self.now));
        meant.holders.iter_mut().for_each(strange);
        let answer = self.run(Kind::Inspect, &[]).await?;
        let seen: LeaseView = view(&self.name, &answer).map_err(|error| error.to_string())?;
        self.told.push(format!("{:>9} look", self.now - BEGINNING));
        if seen == meant { Ok(()) } else { Err(format!("{meant:?} should be seen, not {seen:?}")) }
    }

    fn heard(&self) -> Result<Vec<Told>, String> {
        let pushes = std::mem::take(&mut *self.heard.lock().unwrap());
        let message = |push: Push| {
            let (channel, payload) = (push.get(1)?.text()?, push.get(2)?.text()?);
            let bits = u64::from_str_radix(channel.strip_prefix("leasehold:")?, 16).ok()?;
            let (news, id, lock) = news(payload)?;
            (lock == self.keys[0]).then_some((ClientId::from_bits(bits), id, news))
        };
        pushes.into_iter().map(|push| message(push.clone()).ok_or(format!("what is {push:?}?"))).collect()
    }

    /// What the engine says, and who receives what.
    fn engine(&mut self, command: &Command) -> (Reply, Vec<Told>) {
        let at = At(self.now);
        if let Command::Check(_) = command {
            // To ask changes nothing, so the engine still knows what the server has forgotten.
            self.record.tombstones.retain(|tombstone| !at.left(&tombstone.term).is_over());
        }
        let applied = engine::apply(&mut self.record, command, &at);
        let mut told = Vec::new();
        let mut silenced = BTreeSet::new();
        let mut wakes: VecDeque<Wake> = applied.wakes.into();
        while let Some(wake) = wakes.pop_front() {
            if wake.client.bits() <= RECEIVERS {
                told.push((wake.client, wake.id, wake.news));
            } else if silenced.insert(wake.client) || wake.news.offer().is_some() {
                let silence = Silence { client: wake.client, offer: wake.news.offer() };
                wakes.extend(engine::apply(&mut self.record, &Command::Silence(silence), &at).wakes);
            }
        }
        let mut reply = applied.reply;
        match &mut reply {
            Reply::Claim(ClaimReply::Held(holder)) => strange(holder),
            Reply::Claim(ClaimReply::Queued(queued)) => queued.holder.iter_mut().for_each(strange),
            _ => {}
        }
        (reply, told)
    }

    fn stranger(&self) -> Option<&Holder> {
        self.record.holders.iter().find(|holder| holder.fence == 0)
    }

    /// A stranger takes the name, by force or only if it is free, for so many milliseconds.
    pub(super) async fn intrude(&mut self, force: bool, span: Option<u64>) -> Result<(), String> {
        // Removes what has expired.
        self.look().await?;
        let at = span.map(|span| (self.now / 1000 + span).to_string());
        let mut set = vec!["SET", self.keys[0].as_str(), STRANGER];
        if !force {
            set.push("NX");
        }
        if let Some(at) = &at {
            set.extend(["PXAT", at]);
        }
        let taken = self.ask(&set).await == Answer::Ok;
        self.told.push(format!("{:>9} a stranger: {taken}", self.now - BEGINNING));
        let over = |at: u64, holder: &Holder| At(at).left(&holder.term).is_over();
        let held = |at: u64| self.record.holders.iter().any(|holder| !over(at, holder));
        if !force && taken && held(self.now) {
            return Err("a stranger took what is held".to_owned());
        }
        // The server's grain is a millisecond.
        if !taken && !held(self.now - 1000) {
            return Err("a stranger was refused what is free".to_owned());
        }
        if taken {
            self.end_all();
            let term = match span {
                Some(span) => Term { start: Stamp(self.now / 1000 * 1000), span: Span::from_millis(span + 1) },
                None => Term { start: Stamp(self.now), span: Span::NEVER },
            };
            self.record.holders.push(Holder {
                id: AttemptId::from_bits(u128::MAX),
                fence: 0,
                permits: u32::MAX,
                tenure: 0,
                phase: Phase::Held,
                ttl: term.span,
                term,
                client: None,
                acquired_at_ms: 0,
                who: Arc::new(Who { owner: STRANGER.into(), reason: None }),
                rare: None,
            });
        }
        Ok(())
    }

    /// Somebody removes the lock key.
    pub(super) async fn remove(&mut self) {
        self.ask(&["DEL", &self.keys[0]]).await;
        self.told.push(format!("{:>9} the lock key is removed", self.now - BEGINNING));
        self.end_all();
    }

    fn end_all(&mut self) {
        self.record.holders.retain(|holder| holder.fence != 0 || holder.term.span != Span::from_millis(0));
        for holder in &mut self.record.holders {
            if holder.fence == 0 {
                holder.permits = 1;
            }
            holder.term = Term { start: Stamp(self.now), span: Span::from_millis(0) };
        }
    }

    /// The server's clock is set back by an hour: a lease lasts no longer than what was granted.
    pub(super) async fn set_the_clock_back(&mut self) -> Result<(), String> {
        self.begin(u64::MAX);
        let claim = |id: u128| {
            let args = ["1", "1", "500", "", "", "", "600", "100", "", "1:x"].map(str::to_owned);
            [vec![AttemptId::from_bits(id).to_secret_hex()], args.to_vec()].concat()
        };
        let mut answers = Vec::new();
        for (id, then) in [(1, -3_600_000_000), (2, 499_000), (2, 1_000), (2, 3_700_000_000)] {
            let answer = self.run(Kind::Claim, &claim(id)).await?;
            answers.push(answer.items().and_then(|items| items[0].text()).unwrap_or_default().to_owned());
            self.now = self.now.saturating_add_signed(then);
        }
        if answers == ["granted", "queued", "queued", "granted"] { Ok(()) } else { Err(format!("{answers:?}")) }
    }

    /// Every key is gone one day.
    pub(super) async fn nothing_stays_for_ever(&self) -> Result<(), String> {
        // The lock key may be a stranger's.
        for key in &self.keys[1..] {
            let at = self.ask(&["PEXPIRETIME", key]).await.int();
            if at == Some(-1) {
                return Err(format!("{key} stays for ever\n{}", self.told.join("\n")));
            }
        }
        Ok(())
    }
}

/// The engine knows no strangers: one is played by a holder with the fence 0.
fn strange(holder: &mut HolderView) {
    holder.fence = holder.fence.filter(|fence| *fence != 0);
}
