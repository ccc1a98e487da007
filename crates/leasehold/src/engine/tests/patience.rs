//! I5: what a client that does not answer costs those behind it.

use std::sync::Arc;

use proptest::prelude::*;

use super::{
    Verdict,
    clock::{At, micros},
    ensure,
};
use crate::{
    engine::{Claim, ClaimReply, Command, News, Queueing, Record, Release, Renew, Reply, Span, Wake, Who, apply},
    id::{AttemptId, ClientId},
};

/// One holds, some do not answer, and one that lives waits behind them.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// Milliseconds.
    ttl: u64,
    /// How many do not answer.
    silent: u64,
    /// They are of a client that has stopped; if not, it is one that the living one's client has forgotten.
    stopped: bool,
    /// How long the holder works before it releases or, if it does not, dies. Milliseconds.
    works: u64,
    releases: bool,
    /// Whether the living one gets what is pushed to it. If not, it cannot know of a release before its heartbeat.
    told: bool,
}

pub(super) fn scene() -> impl Strategy<Value = Scene> {
    (20..3_000_u64, 0..5_u64, 0..5_000_u64, any::<bool>(), any::<bool>()).prop_map(
        |(ttl, silent, works, releases, told)| Scene {
            ttl,
            silent: silent.max(1),
            stopped: silent > 0,
            works,
            releases,
            told: told || releases,
        },
    )
}

const HOLDER: u64 = 1;
const LIVING: u64 = 2;
const STOPPED: u64 = 3;
const BEAT: u64 = 3_333_000;

struct Stage {
    record: Record,
    now: u64,
    ttl: u64,
    wakes: Vec<Wake>,
}

impl Stage {
    fn step(&mut self, command: impl Into<Command>) -> Reply {
        let applied = apply(&mut self.record, &command.into(), &At { now: self.now, floor: 1 });
        self.wakes.extend(applied.wakes);
        applied.reply
    }

    fn window(&self) -> u64 {
        (self.ttl / 3).min(1_000)
    }

    fn claim(&mut self, client: u64, id: u64) -> ClaimReply {
        let window = Span::from_millis(self.window());
        let claim = Claim {
            id: AttemptId::from_bits(id.into()),
            permits: 1,
            capacity: 1,
            ttl: Span::from_millis(self.ttl),
            max_hold: None,
            client: Some(ClientId::from_bits(client)),
            told: None,
            queue: Some(Queueing { waiter_ttl: Span::from_millis(10_000), window }),
            work: None,
            who: Arc::new(Who { owner: "somebody".into(), reason: None }),
        };
        match self.step(claim) {
            Reply::Claim(reply) => reply,
            other => unreachable!("a claim was answered with {other:?}"),
        }
    }
}

/// From the moment when the name is free, the living waits for one claim window, however many waiters a stopped client
/// has.
pub(super) fn a_silent_client_costs_one_window(scene: &Scene) -> Verdict {
    let mut stage = Stage { record: Record::default(), now: 1_000, ttl: scene.ttl, wakes: Vec::new() };
    let ClaimReply::Granted(grant) = stage.claim(HOLDER, HOLDER) else {
        return Err("claim: a free name was not granted".into());
    };
    for index in 0..scene.silent {
        stage.claim(if scene.stopped { STOPPED } else { LIVING }, 10 + index);
    }
    let mut look = turn(stage.now, &stage.claim(LIVING, LIVING));
    let (third, end) = (scene.ttl * 1000 / 3, stage.now + scene.works * 1000);
    let mut renew = stage.now + third;
    // The holder works and renews.
    while stage.now < end {
        stage.now = end.min(renew).min(look);
        if stage.now >= renew {
            stage.step(Renew { id: grant.id, fence: grant.fence, tenure: Some(0), not_after_ms: None });
            renew = stage.now + third;
        }
        if stage.now >= look {
            look = turn(stage.now, &stage.claim(LIVING, LIVING));
        }
    }
    let free = if scene.releases {
        stage.step(Release { id: grant.id, tenure: Some(0), linger: None, remember: None });
        stage.now
    } else {
        let holder = stage.record.holder(grant.id).expect("it has renewed in time");
        stage.now + At { now: stage.now, floor: 1 }.left_us(&holder.term).expect("it expires")
    };
    // The stopped ones do nothing, the living looks when it is told to.
    let limit = free + stage.window() * 1000 + 3_000;
    loop {
        let told = stage.wakes.drain(..).rfind(|wake| scene.told && wake.id == AttemptId::from_bits(LIVING.into()));
        match told.map(|wake| wake.news) {
            Some(News::Offer { .. }) => look = stage.now,
            Some(News::Next { in_ms }) => look = look.min(stage.now + in_ms * 1000 + 1_000),
            Some(News::Broken) | None => {}
        }
        stage.now = look;
        ensure!(stage.now <= limit, "I5: the living waited longer than a claim window after the name was free");
        match stage.claim(LIVING, LIVING) {
            ClaimReply::Granted(_) => return Ok(()),
            reply => look = turn(stage.now, &reply),
        }
    }
}

/// When to look again.
fn turn(now: u64, reply: &ClaimReply) -> u64 {
    let ClaimReply::Queued(queued) = reply else { return now };
    now + queued.wake_in.map_or(BEAT, |wait| micros(wait) + 1_000).min(BEAT)
}
