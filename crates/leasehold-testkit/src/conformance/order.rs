//! First come, first served; and the dead do not stall the living.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    Phase,
    engine::{ClaimReply, Queueing},
};

use super::kit::{
    EPSILON, PROMPT, Steps, WINDOW, claim, dead_waiters, id, lock, ms, patient, queued, release, renew, seen, until,
};
use crate::Fixture;

pub(super) async fn waiters_of_several_clients_are_served_first_come_first_served(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let clients = [client.clone(), fixture.client().await, fixture.client().await];
    let first = lock.acquire().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..9 {
        let (lock, served) = (clients[n % 3].lock("x").unwrap(), served.clone());
        tasks.push(tokio::spawn(async move {
            let lease = lock.acquire().await.unwrap();
            served.lock().unwrap().push((n, lease.fence()));
            assert!(lease.release().await.unwrap());
        }));
        queued(&client, first.name(), n + 1).await;
    }
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let served = served.lock().unwrap();
    assert_eq!(served.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    assert!(served.is_sorted_by_key(|(_, fence)| *fence));
}

pub(super) async fn a_newcomer_does_not_overtake_those_who_wait(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let held = steps.granted(claim(1)).await;
    steps.placed(patient(2, steps.store().client())).await;
    steps.ask(release(1)).await;
    // Free for nobody but the one whose turn it is, though that one has not come yet.
    match steps.ask(claim(3)).await {
        ClaimReply::Held(holder) => {
            assert_eq!(&*holder.owner, "owner 2");
            assert_eq!(holder.phase, Phase::Offered);
        }
        other => panic!("it overtook: {other:?}"),
    }
    let late = steps.placed(patient(4, steps.store().client())).await;
    assert_eq!(late.position, 1);
    let grant = steps.granted(patient(2, steps.store().client())).await;
    assert!(grant.offered && grant.fence > held.fence);
    assert!(grant.left.unwrap() <= WINDOW, "the claim window only, until it is confirmed");
    steps.ask(renew(2, grant.fence)).await;
    let left = seen(&steps.client, &steps.name).await.holders[0].expires_in.unwrap();
    assert!(left > WINDOW, "the whole ttl once it is confirmed: {left:?}");
}

pub(super) async fn a_waiter_keeps_its_place_by_its_heartbeat(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let holder = lock.acquire().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..2 {
        let (lock, served) = (fixture.client().await.lock("x").unwrap(), served.clone());
        tasks.push(tokio::spawn(async move {
            let lease = lock.acquire().await.unwrap();
            served.lock().unwrap().push(n);
            lease.release().await.unwrap();
        }));
        queued(&client, holder.name(), n + 1).await;
    }
    // Longer than the waiter ttl.
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    let queue = seen(&client, holder.name()).await.queue.unwrap();
    assert_eq!(queue.len(), 2);
    assert!(queue.iter().all(|waiter| !waiter.silent && waiter.waiting > Duration::from_secs(10)), "{queue:?}");
    holder.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), [0, 1]);
}

pub(super) async fn a_silent_waiter_is_passed_over_at_once(fixture: &Fixture) {
    // The best of three, since a busy machine may take a claim window for anything.
    let mut best = Duration::MAX;
    for n in 0..3 {
        let name = format!("x{n}");
        let (client, lock) = lock(fixture, &name).await;
        let holder = lock.acquire().await.unwrap();
        dead_waiters(fixture, &name, 1..=3).await;
        let other = fixture.client().await.lock(name).unwrap();
        let waiter = tokio::spawn(async move { other.acquire().await.unwrap() });
        queued(&client, holder.name(), 4).await;
        let released = client.now();
        holder.release().await.unwrap();
        let lease = waiter.await.unwrap();
        best = best.min(client.now().since(released));
        let queue = seen(&client, lease.name()).await.queue.unwrap();
        assert!(queue.len() == 3 && queue.iter().all(|waiter| waiter.silent), "{queue:?}");
    }
    assert!(best < WINDOW - ms(200), "it took {best:?}, and a claim window is {WINDOW:?}");
}

pub(super) async fn a_waiter_that_nobody_can_wake_costs_one_claim_window(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let holder = lock.acquire().await.unwrap();
    let steps = Steps::of(fixture, "x").await;
    steps.placed(patient(1, None)).await;
    let other = fixture.client().await.lock("x").unwrap();
    let waiter = tokio::spawn(async move { other.acquire().await.unwrap() });
    queued(&client, holder.name(), 2).await;
    let released = client.now();
    holder.release().await.unwrap();
    let _lease = waiter.await.unwrap();
    let took = client.now().since(released);
    assert!(took >= WINDOW, "the offer to the one before was not waited for: {took:?}");
    assert!(took < WINDOW + EPSILON, "{took:?}");
}

pub(super) async fn a_silent_waiter_that_is_heard_again_stands_where_it_stood(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let here = steps.store().client();
    steps.granted(claim(1)).await;
    dead_waiters(fixture, "x", [2]).await;
    steps.placed(patient(3, here)).await;
    steps.ask(release(1)).await;
    let grant = steps.granted(patient(3, here)).await;
    steps.ask(renew(3, grant.fence)).await;
    assert!(seen(&steps.client, &steps.name).await.queue.unwrap()[0].silent);
    steps.placed(patient(4, here)).await;

    let heard = steps.placed(patient(2, here)).await;
    assert_eq!(heard.position, 1);
    let queue = seen(&steps.client, &steps.name).await.queue.unwrap();
    assert_eq!(queue.iter().map(|waiter| &*waiter.owner).collect::<Vec<_>>(), ["owner 2", "owner 4"]);
    assert!(!queue[0].silent);
    steps.ask(release(3)).await;
    assert_eq!(steps.granted(patient(2, here)).await.id, id(2));
}

pub(super) async fn a_waiter_that_stays_silent_is_dropped_when_its_waiter_ttl_ends(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    steps.granted(claim(1)).await;
    let mut silent = patient(2, None);
    silent.queue = Some(Queueing { waiter_ttl: ms(400).into(), window: ms(100).into() });
    let began = steps.client.now();
    steps.placed(silent).await;
    until("it is dropped", async || super::kit::waiters(&steps.client, &steps.name).await == 0).await;
    let took = steps.client.now().since(began);
    assert!(took >= ms(400) && took < PROMPT, "{took:?}");
    // And that is not only how it looks.
    assert_eq!(steps.placed(patient(3, None)).await.position, 1);
}
