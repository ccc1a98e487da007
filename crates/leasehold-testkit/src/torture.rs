//! Takers that are killed, stopped and continued at random, and the history of it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use leasehold::clock::{Clock as _, SystemClock};

use crate::{
    Fixture,
    history::{Event, Fifo, Hold, What, check},
    taker::{Job, Order, Taker, Task},
};

/// What a torture is like.
#[derive(Clone, Copy, Debug)]
pub struct Torture {
    /// What the schedule is drawn from.
    pub seed: u64,
    /// How many takers there are at any time.
    pub takers: usize,
    /// How long it lasts.
    pub span: Duration,
    /// The ttl of every lease, in milliseconds.
    pub ttl_ms: u64,
}

impl Torture {
    /// With the seed in `LEASEHOLD_SEED`, else a new one.
    pub fn with_a_seed() -> Self {
        let given = std::env::var("LEASEHOLD_SEED").ok();
        let seed = given.map_or_else(|| SystemClock.now().nanos(), |seed| seed.parse().expect("a seed is a number"));
        Self { seed, takers: 5, span: Duration::from_secs(9), ttl_ms: 1000 }
    }

    /// Tortures, and gives the holds of a history that is in order. Panics with the seed if it is not.
    pub fn run(self, fixture: &Fixture, program: &Path) -> Vec<Hold> {
        let events = self.history(fixture, program);
        match check(&events, Fifo::Undisturbed) {
            Ok(holds) => holds,
            Err(violations) => {
                let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
                panic!(
                    "run again with LEASEHOLD_SEED={}, or read {}: {} violations\n{}",
                    self.seed,
                    self.keep(&events).display(),
                    all.len(),
                    all.join("\n")
                )
            }
        }
    }

    /// Writes down what happened, as JSON Lines.
    fn keep(self, events: &[Event]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("leasehold-torture-{}.jsonl", self.seed));
        let lines: Vec<String> = events.iter().filter_map(|event| serde_json::to_string(event).ok()).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        path
    }

    fn history(self, fixture: &Fixture, program: &Path) -> Vec<Event> {
        let mut random = Random(self.seed);
        let mut born = 0;
        let mut start = |random: &mut Random| {
            born += 1;
            let job = Job::new(fixture.url_for_others(), "torture", format!("t{born}"));
            let hold = Task::Hold(random.below(40));
            Taker::start(program, &job.ttl_ms(self.ttl_ms).rounds(None).task(hold))
        };
        let mut takers: Vec<Taker> = (0..self.takers).map(|_| start(&mut random)).collect();
        let mut stopped: Vec<Option<leasehold::clock::Moment>> = vec![None; self.takers];
        let mut events = Vec::new();

        let end = SystemClock.now() + self.span;
        while SystemClock.now() < end {
            std::thread::sleep(Duration::from_millis(20 + random.below(150)));
            let now = SystemClock.now();
            for (taker, until) in takers.iter_mut().zip(&mut stopped) {
                if until.is_some_and(|until| now >= until) {
                    *until = None;
                    taker.go_on();
                }
            }
            // Half of the time whoever holds, else anyone.
            let holder = takers.iter_mut().position(|taker| holds(taker.so_far())).filter(|_| random.below(2) == 0);
            let victim = holder.unwrap_or_else(|| usize::try_from(random.below(self.takers as u64)).unwrap());
            match random.below(10) {
                0 | 1 => {
                    takers[victim].kill();
                    stopped[victim] = None;
                    events.extend(std::mem::replace(&mut takers[victim], start(&mut random)).finish());
                }
                2..=5 if stopped[victim].is_none() => {
                    takers[victim].stop();
                    stopped[victim] = Some(now + Duration::from_millis(random.below(self.ttl_ms * 2)));
                }
                _ => {}
            }
        }
        for (taker, until) in takers.iter_mut().zip(stopped) {
            if until.is_some() {
                taker.go_on();
            }
            taker.order(Order::End);
        }
        events.extend(takers.into_iter().flat_map(Taker::finish));
        events
    }
}

fn holds(events: &[Event]) -> bool {
    let last =
        events.iter().rev().find(|event| !matches!(event.what, What::Signalled | What::Stopped | What::Continued));
    last.is_some_and(|event| matches!(event.what, What::Acquired { .. } | What::Worked))
}

/// A small generator (splitmix64): the same numbers for the same seed, everywhere.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
