//! Stopped and continued.

use std::time::Duration;

use super::{EPSILON, Scene, now};
use crate::{
    history::{Event, What, assert_sound},
    resource,
    taker::{Order, Task},
};

/// Of a ttl of 30 s.
const CLAIM_WINDOW: Duration = Duration::from_secs(1);

pub(super) fn a_holder_stopped_past_its_ttl_is_told_before_it_does_anything_else(scene: &Scene<'_>) {
    let mut first = scene.holder("first", 1000);
    let (fence, _) = first.acquired();
    let mut second = scene.waiter("second", 1000);
    // It holds by renewals by now, not by its first grant.
    std::thread::sleep(Duration::from_millis(1500));
    first.stop();
    let stopped = now();
    let (next_fence, acquired) = second.acquired();
    assert!(next_fence > fence);
    std::thread::sleep(Duration::from_millis(300));
    let resumed = now();
    first.go_on();

    let told = first.wait_for(|what| matches!(what, What::Lost { .. }));
    let What::Lost { deadline, .. } = told.what else { unreachable!("it was waited for") };
    assert!(told.at >= resumed);
    assert!(deadline <= acquired, "it relied on it {} µs too long", (deadline - acquired) / 1000);
    let since: Vec<&Event> = first.so_far().iter().filter(|event| event.at > stopped).collect();
    let said: Vec<&What> = since.iter().map(|event| &event.what).collect();
    assert!(matches!(said[..], [What::Continued, What::Lost { .. }]), "it did something else first: {said:?}");
    second.order(Order::Release);
    assert_sound(&[first.finish(), second.finish()].concat());
}

pub(super) fn a_holder_stopped_for_less_than_its_ttl_keeps_the_name(scene: &Scene<'_>) {
    let mut holder = scene.holder("holder", 6000);
    holder.acquired();
    let mut waiter = scene.waiter("waiter", 6000);
    holder.stop();
    // Longer than the time between renewals.
    std::thread::sleep(Duration::from_millis(2500));
    holder.go_on();
    std::thread::sleep(Duration::from_millis(300));
    holder.order(Order::Release);
    holder.wait_for(|what| *what == What::Released { held: true });
    waiter.acquired();
    waiter.order(Order::Release);
    assert_sound(&[holder.finish(), waiter.finish()].concat());
}

pub(super) fn a_stopped_waiter_costs_at_most_one_claim_window(scene: &Scene<'_>) {
    let mut holder = scene.holder("holder", 30_000);
    holder.acquired();
    let mut job = scene.job("stopped");
    job.tasks = 4;
    let mut stopped = scene.start(&job);
    for _ in 0..job.tasks {
        stopped.queued();
    }
    let mut next = scene.waiter("next", 30_000);
    stopped.stop();
    let released = now();
    holder.order(Order::Release);
    let (_, acquired) = next.acquired();
    let took = Duration::from_nanos(acquired - released);
    assert!(took < CLAIM_WINDOW + EPSILON, "one window for all four of them, and it took {took:?}");
}

pub(super) fn a_stopped_waiter_that_goes_on_stands_where_it_stood(scene: &Scene<'_>) {
    let mut holder = scene.holder("holder", 30_000);
    holder.acquired();
    let mut stopped = scene.waiter("stopped", 30_000);
    let mut next = scene.waiter("next", 30_000);
    let mut last = scene.waiter("last", 30_000);
    stopped.stop();
    holder.order(Order::Release);
    next.acquired();
    stopped.go_on();
    // Its heartbeat, if not the offer that it missed, has it heard.
    std::thread::sleep(Duration::from_millis(4500));
    next.order(Order::Release);
    stopped.acquired();
    stopped.order(Order::Release);
    last.acquired();
    last.order(Order::Release);
    assert_sound(&[holder.finish(), stopped.finish(), next.finish(), last.finish()].concat());
}

pub(super) fn a_fenced_resource_refuses_the_stale_holder_and_an_unfenced_one_does_not(scene: &Scene<'_>) {
    let directory = tempfile::tempdir().unwrap();
    for fenced in [true, false] {
        let file = directory.path().join(format!("register-{fenced}"));
        let writer = |party: &str| {
            let task = Task::Write { file: file.clone(), fenced };
            scene.start(&scene.job(party).ttl_ms(1000).task(task))
        };
        let mut stale = writer("stale");
        stale.acquired();
        stale.stop();
        let mut successor = writer("successor");
        successor.acquired();
        successor.order(Order::Write);
        successor.wait_for(|what| *what == What::Wrote { accepted: true });
        stale.order(Order::Write);
        stale.go_on();
        stale.wait_for(|what| *what == What::Wrote { accepted: !fenced });
        let expected = if fenced { "successor" } else { "stale" };
        assert_eq!(resource::read(&file), expected, "fenced: {fenced}");
    }
}
