//! Many at once.

use std::{collections::BTreeMap, time::Duration};

use super::{Scene, nanos, now};
use crate::{
    history::{Event, What, assert_sound},
    taker::{Job, Order, Taker, Task},
};

const CROWD: u32 = 8;

pub(super) fn no_increment_is_lost_under_the_lock_and_some_are_without_it(scene: &Scene<'_>) {
    const EACH: u32 = 25;
    let directory = tempfile::tempdir().unwrap();
    let total = |locked: bool| {
        let file = directory.path().join(format!("number-{locked}"));
        let task = Task::Count { file: file.clone(), pause_ms: 2, locked };
        let events = together(scene, |job| job.rounds(Some(EACH)).task(task.clone()));
        if locked {
            assert_eq!(assert_sound(&events).len(), (CROWD * EACH) as usize);
        }
        std::fs::read_to_string(file).unwrap().trim().parse::<u32>().unwrap()
    };
    assert_eq!(total(true), CROWD * EACH);
    let without = total(false);
    assert!(without < CROWD * EACH, "the control lost nothing, so that the test proves nothing");
}

/// Starts the crowd, lets it begin at the same time, and waits for its end.
fn together(scene: &Scene<'_>, change: impl Fn(Job) -> Job) -> Vec<Event> {
    let mut takers = crowd(scene, change);
    tell(&mut takers, Order::Go);
    takers.into_iter().flat_map(Taker::finish).collect()
}

fn tell(takers: &mut [Taker], order: Order) {
    for taker in takers {
        taker.order(order);
    }
}

fn crowd(scene: &Scene<'_>, change: impl Fn(Job) -> Job) -> Vec<Taker> {
    let job = |n: u32| {
        let mut job = change(scene.job(&format!("p{n}")));
        job.on_order = true;
        job
    };
    (1..=CROWD).map(|n| scene.start(&job(n))).collect()
}

pub(super) fn eight_processes_get_equal_shares(scene: &Scene<'_>) {
    const ROUNDS: usize = 25;
    let mut takers = crowd(scene, |job| job.rounds(None).task(Task::Hold(1)));
    tell(&mut takers, Order::Go);
    // From when all of them want it until all together had it so often.
    let began = takers.iter_mut().map(|taker| taker.acquired().1).max().unwrap();
    let counted = |events: &[Event]| -> BTreeMap<String, usize> {
        let mut holds: Vec<&Event> =
            events.iter().filter(|e| e.at > began && matches!(e.what, What::Acquired { .. })).collect();
        holds.sort_by_key(|event| event.at);
        let mut counts = BTreeMap::new();
        for event in holds.into_iter().take(CROWD as usize * ROUNDS) {
            *counts.entry(event.party.clone()).or_default() += 1;
        }
        counts
    };
    let so_far = |takers: &mut [Taker]| takers.iter_mut().flat_map(|taker| taker.so_far().to_vec()).collect::<Vec<_>>();
    let end = now() + nanos(Duration::from_secs(40));
    while counted(&so_far(&mut takers)).values().sum::<usize>() < CROWD as usize * ROUNDS {
        assert!(now() < end, "so few rounds: {:?}", counted(&so_far(&mut takers)));
        std::thread::sleep(Duration::from_millis(50));
    }
    tell(&mut takers, Order::End);
    let events: Vec<Event> = takers.into_iter().flat_map(Taker::finish).collect();
    assert_sound(&events);
    let counts = counted(&events);
    let index = jain(&counts.values().copied().collect::<Vec<_>>());
    assert!(index >= 0.95, "Jain's index is {index:.3}: {counts:?}");
}

/// 1 if all have the same, 1/n if one has all.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn jain(counts: &[usize]) -> f64 {
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    sum * sum / (f64::from(CROWD) * squares)
}

pub(super) fn a_release_wakes_a_waiter_in_another_process(scene: &Scene<'_>) {
    // A heartbeat is 3.3 s, and the holder's ttl is 30 s: only a wake-up is faster.
    const PROMPT: Duration = Duration::from_millis(1500);
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let mut holder = scene.holder("holder", 30_000);
        holder.acquired();
        let mut waiter = scene.waiter("waiter", 30_000);
        holder.order(Order::Release);
        let releasing = holder.wait_for(|what| *what == What::Releasing);
        let (_, acquired) = waiter.acquired();
        best = best.min(Duration::from_nanos(acquired.saturating_sub(releasing.at)));
        waiter.order(Order::Release);
        waiter.finish();
    }
    assert!(best < PROMPT, "the best of three took {best:?}");
}
