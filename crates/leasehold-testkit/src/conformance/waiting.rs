//! Giving up, being dropped, being told.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::engine::LeaveReply;

use super::kit::{
    PROMPT, Steps, assert_free, claim, contended, freed, id, leave, lock, ms, patient, queued, release, seen, waiters,
};
use crate::Fixture;

pub(super) async fn a_waiter_that_gives_up_leaves_the_queue_at_once(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let holder = lock.acquire().await.unwrap();
    let impatient = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire_timeout(ms(300)).await }
    });
    queued(&client, lock.name(), 1).await;
    contended(impatient.await.unwrap());
    assert_eq!(waiters(&client, lock.name()).await, 0, "it has left before it says so");
    holder.release().await.unwrap();
    assert_free(&client, lock.name()).await;
}

pub(super) async fn a_dropped_acquire_leaves_the_queue_at_once(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let other = fixture.client().await.lock("x").unwrap();
    let holder = lock.acquire().await.unwrap();
    let first = tokio::spawn(async move { other.acquire().await });
    queued(&client, lock.name(), 1).await;
    let second = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    queued(&client, lock.name(), 2).await;

    let began = client.now();
    first.abort();
    queued(&client, lock.name(), 1).await;
    assert!(client.now().since(began) < PROMPT, "its place is not left to expire");
    holder.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
    assert_free(&client, lock.name()).await;
}

pub(super) async fn a_grant_that_raced_with_giving_up_is_passed_on(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let here = steps.store().client();
    steps.granted(claim(1)).await;
    steps.placed(patient(2, here)).await;
    steps.placed(patient(3, here)).await;
    steps.ask(release(1)).await;
    // Granted to 2, which does not know and leaves.
    assert_eq!(steps.ask(leave(2)).await, LeaveReply::Holding);
    let view = seen(&steps.client, &steps.name).await;
    assert_eq!(&*view.holders[0].owner, "owner 3", "in the same step");
    assert_eq!(steps.granted(patient(3, here)).await.id, id(3));
}

pub(super) async fn cancels_that_race_with_grants_leak_nothing(fixture: &Fixture) {
    const ROUNDS: u64 = 500;
    let (client, lock) = lock(fixture, "x").await;
    let others = [fixture.client().await.lock("x").unwrap(), fixture.client().await.lock("x").unwrap()];
    for round in 0..ROUNDS {
        let holder = lock.acquire().await.unwrap();
        let waiting = others.clone().map(|lock| tokio::spawn(async move { lock.acquire().await }));
        if round % 2 == 0 {
            // They stand in the queue, at least for the most part.
            tokio::time::sleep(Duration::from_micros(200 * (round % 7))).await;
        }
        let releasing = tokio::spawn(async move { holder.release().await });
        // Before, while and after the grant is under way.
        for _ in 0..round % 11 {
            tokio::task::yield_now().await;
        }
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        assert!(releasing.await.unwrap().unwrap());
        for waiting in waiting {
            // One that got it before it was dropped gives it back by being dropped.
            drop(waiting.await);
        }
    }
    freed(&client, lock.name()).await;
    let lease = lock.try_acquire().await.unwrap();
    assert!(lease.release().await.unwrap());
    assert_free(&client, lock.name()).await;
}

pub(super) async fn whoever_waits_is_told_for_whom_and_in_which_place(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let holder = lock.clone().owner("alice").acquire().await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 1..=2 {
        let told = told.clone();
        let lock = lock.clone().on_wait(move |waiting| {
            let holder = waiting.holder.as_ref().map(|holder| holder.owner.to_string());
            told.lock().unwrap().push((n, waiting.position, holder, waiting.store_away.is_some()));
        });
        tasks.push(tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() }));
        queued(&client, holder.name(), n).await;
    }
    holder.release().await.unwrap();
    for task in tasks {
        assert!(task.await.unwrap());
    }
    let told = told.lock().unwrap();
    for n in 1..=2 {
        let first = told.iter().find(|(who, ..)| *who == n).expect("it was told");
        assert_eq!((first.1, first.2.as_deref(), first.3), (u32::try_from(n).ok(), Some("alice"), false));
    }
}
