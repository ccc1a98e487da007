//! No lost wake-ups: whoever's turn it is learns so long before its next heartbeat.

use std::time::Duration;

use super::kit::{EPSILON, PROMPT, SHORT, lock, queued};
use crate::Fixture;

pub(super) async fn a_release_wakes_a_waiter_of_another_client(fixture: &Fixture) {
    const ROUNDS: u32 = 10;
    let (client, lock) = lock(fixture, "x").await;
    let other = fixture.client().await.lock("x").unwrap();
    let mut total = Duration::ZERO;
    for _ in 0..ROUNDS {
        let holder = lock.acquire().await.unwrap();
        let waiter = tokio::spawn({
            let other = other.clone();
            async move { other.acquire().await.unwrap() }
        });
        queued(&client, lock.name(), 1).await;
        let released = client.now();
        holder.release().await.unwrap();
        let lease = waiter.await.unwrap();
        total += client.now().since(released);
        lease.release().await.unwrap();
        assert!(total < PROMPT, "up to {ROUNDS} hand-overs took {total:?}, and a heartbeat is 3.3 s");
    }
}

pub(super) async fn an_expiry_wakes_a_waiter_without_a_release(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let dying = lock.clone().ttl(SHORT / 2).keep_alive(false).acquire().await.unwrap();
    let waiters: Vec<_> = (0..3).map(|_| fixture.client()).collect();
    let mut tasks = Vec::new();
    for waiter in waiters {
        let lock = waiter.await.lock("x").unwrap();
        tasks.push(tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() }));
    }
    for task in tasks {
        assert!(task.await.unwrap());
    }
    let took = client.now().since(dying.deadline());
    assert!(took < EPSILON, "{took:?} after the expiry, and nobody released it");
}

pub(super) async fn a_waiter_that_leaves_the_head_wakes_the_next(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let other = fixture.client().await.lock("x").unwrap();
    let holder = lock.clone().ttl(SHORT).keep_alive(false).acquire().await.unwrap();
    let first = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    queued(&client, lock.name(), 1).await;
    let second = tokio::spawn(async move { other.acquire().await.unwrap() });
    queued(&client, lock.name(), 2).await;
    first.abort();
    let lease = second.await.unwrap();
    let took = client.now().since(holder.deadline());
    assert!(took < EPSILON, "{took:?} after the expiry");
    assert!(lease.is_valid());
}
