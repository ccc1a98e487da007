//! Acquire, try, wait for a while, release.

use std::time::Duration;

use leasehold::{ErrorKind, Retry, Ttl};

use super::kit::{EPSILON, LONG, assert_free, assert_kind, contended, lock, ms, seen};
use crate::Fixture;

pub(super) async fn a_free_name_is_acquired_and_free_again_after_its_release(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    for _ in 0..3 {
        let lease = lock.acquire().await.unwrap();
        assert!(lease.is_valid() && lease.loss().is_none());
        assert_eq!(lease.name().as_str(), "x");
        assert_eq!(lease.ttl(), Ttl::For(LONG));
        let left = lease.remaining().unwrap();
        assert!(left > LONG - EPSILON - LONG / 100 && left < LONG - LONG / 100, "1 % and 2 ms are kept: {left:?}");
        assert_eq!(seen(&client, lease.name()).await.holders.len(), 1);
        assert!(lease.release().await.unwrap());
        assert_free(&client, lock.name()).await;
    }
}

pub(super) async fn a_held_name_is_refused_at_once_to_one_that_does_not_wait(fixture: &Fixture) {
    let (_, lock) = lock(fixture, "x").await;
    let other = fixture.client().await;
    let lease = lock.try_acquire().await.unwrap();
    for client in [&other, &other] {
        let refused = contended(client.lock("x").unwrap().try_acquire().await);
        assert_eq!(refused.attempts, 1);
        assert!(refused.waited < EPSILON, "{:?}", refused.waited);
    }
    assert_eq!(contended(lock.try_acquire().await).attempts, 1, "also to the client that holds it");
    lease.release().await.unwrap();
    assert!(other.lock("x").unwrap().try_acquire().await.unwrap().release().await.unwrap());
}

pub(super) async fn a_wait_ends_when_its_time_is_up_and_not_before(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let lease = lock.acquire().await.unwrap();
    let wait = ms(400);
    let began = client.now();
    let refused = contended(lock.acquire_timeout(wait).await);
    let took = client.now().since(began);
    assert!(took >= wait, "it gave up after {took:?}");
    assert!(took < wait + EPSILON, "it gave up after {took:?} only");
    assert!(refused.waited >= wait - ms(100), "{:?}", refused.waited);
    assert_eq!(refused.holder.unwrap().fence, lease.fence());
    assert_eq!(super::kit::waiters(&client, lock.name()).await, 0);
}

pub(super) async fn a_refusal_names_the_holder_its_reason_since_when_and_the_time_left(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "deploy").await;
    let before = std::time::SystemTime::now() - ms(2);
    let lease = lock.clone().owner("alice@web:7").reason("release 1.4").acquire().await.unwrap();
    for refused in [lock.try_acquire().await, lock.acquire_timeout(ms(50)).await] {
        let refused = contended(refused);
        let text = refused.to_string();
        let holder = refused.holder.unwrap();
        assert_eq!(refused.name.as_str(), "deploy");
        assert_eq!(&*holder.owner, "alice@web:7");
        assert_eq!(holder.reason.as_deref(), Some("release 1.4"));
        assert_eq!(holder.fence, lease.fence());
        let since = holder.acquired_at().unwrap();
        assert!(since >= before && since <= std::time::SystemTime::now(), "{since:?}");
        let left = holder.expires_in.unwrap();
        assert!(left <= LONG && left > LONG - EPSILON, "{left:?}");
        for part in ["deploy", "alice@web:7", "release 1.4", "since", "left"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }
    drop(client);
}

pub(super) async fn names_do_not_exclude_each_other(fixture: &Fixture) {
    let client = fixture.client().await;
    let mut leases = Vec::new();
    for n in 0..50 {
        leases.push(client.lock(format!("n{n}")).unwrap().try_acquire().await.unwrap());
    }
    assert_eq!(client.list("").await.unwrap().len(), 50);
    for lease in leases {
        assert!(lease.release().await.unwrap());
    }
    assert_eq!(client.list("").await.unwrap().len(), 0);
}

pub(super) async fn of_many_that_try_at_once_one_gets_it(fixture: &Fixture) {
    let mut tries = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (_, lock) = lock(fixture, "x").await;
        for _ in 0..8 {
            let lock = lock.clone();
            tries.spawn(async move { lock.try_acquire().await });
        }
    }
    let results = tries.join_all().await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    for result in lost {
        contended(result);
    }
}

pub(super) async fn a_retry_policy_asks_as_often_as_it_says_and_does_not_queue(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let lease = lock.acquire().await.unwrap();
    let interval = ms(50);
    let asks = lock.clone().retry(Retry { attempts: 4, interval, jitter: 0.0 });
    let began = client.now();
    let refused = contended(asks.acquire().await);
    assert_eq!(refused.attempts, 4);
    assert!(client.now().since(began) >= 3 * interval, "it waits between");

    let task = tokio::spawn(async move { asks.retry(Retry { attempts: 1000, interval, jitter: 0.5 }).acquire().await });
    tokio::time::sleep(2 * interval).await;
    assert_eq!(super::kit::waiters(&client, lock.name()).await, 0, "it does not queue");
    lease.release().await.unwrap();
    assert!(task.await.unwrap().unwrap().attempts() > 1);
}

pub(super) async fn what_makes_no_sense_is_refused(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let retry = |attempts, jitter| Retry { attempts, interval: ms(1), jitter };
    for wrong in [
        lock.clone().ttl(Duration::ZERO),
        lock.clone().ttl(ms(19)),
        lock.clone().ttl(Duration::from_hours(367 * 24)),
        lock.clone().owner("two\nlines"),
        lock.clone().reason("x".repeat(513)),
        lock.clone().work("\u{1b}[31m"),
        lock.clone().min_hold(Duration::ZERO),
        lock.clone().max_hold(Duration::ZERO),
        lock.clone().min_hold(ms(200)).max_hold(ms(100)),
        lock.clone().ttl(ms(100)).min_validity(ms(100)),
        lock.clone().retry(retry(0, 0.0)),
        lock.clone().retry(retry(1, 1.5)),
    ] {
        assert_kind(wrong.try_acquire().await, ErrorKind::Invalid);
    }
    assert_free(&client, lock.name()).await;
}
