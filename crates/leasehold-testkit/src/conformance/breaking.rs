//! An operator ends a lease.

use std::time::Duration;

use leasehold::{BreakReply, ErrorKind, Loss, Phase, Ttl};

use super::kit::{EPSILON, LONG, SHORT, assert_free, assert_kind, lock, queued, seen};
use crate::Fixture;

pub(super) async fn a_broken_lease_is_not_renewed_and_free_when_its_time_is_up(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let victim = lock.clone().ttl(2 * SHORT).acquire().await.unwrap();
    let fence = victim.fence().unwrap();
    let waiter = tokio::spawn({
        let other = fixture.client().await;
        async move { (other.lock("x").unwrap().acquire().await.unwrap(), other.now()) }
    });
    queued(&client, lock.name(), 1).await;

    let broken = client.now();
    let reply = fixture.client().await.break_lease(lock.name(), fence, false).await.unwrap();
    let BreakReply::Broken { free_in } = reply else { panic!("{reply:?}") };
    assert!(free_in <= 2 * SHORT, "{free_in:?}");
    assert_eq!(victim.lost().await, Loss::Broken);
    assert!(client.now().since(broken) < 2 * SHORT, "at its next renewal at the latest");
    assert_eq!(seen(&client, lock.name()).await.holders[0].phase, Phase::Broken);
    assert_kind(victim.renew().await, ErrorKind::Lost);

    let (next, acquired) = waiter.await.unwrap();
    assert!(acquired >= victim.deadline(), "it was let run out");
    assert!(acquired.since(broken) < 2 * SHORT + EPSILON);
    assert!(next.fence().unwrap() > fence);
}

pub(super) async fn a_lease_broken_now_is_free_at_once(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let victim = lock.clone().ttl(2 * SHORT).acquire().await.unwrap();
    let fence = victim.fence().unwrap();
    let reply = fixture.client().await.break_lease(lock.name(), fence, true).await.unwrap();
    assert_eq!(reply, BreakReply::Broken { free_in: Duration::ZERO });
    assert_free(&client, lock.name()).await;
    let broken = client.now();
    let next = fixture.client().await.lock("x").unwrap().try_acquire().await.unwrap();
    assert!(next.fence().unwrap() > fence);
    assert_eq!(victim.lost().await, Loss::Broken);
    assert!(client.now().since(broken) < 2 * SHORT, "at its next renewal at the latest");
    assert!(!victim.release().await.unwrap());
    assert!(next.is_valid() && next.release().await.unwrap());
}

pub(super) async fn a_newer_holder_is_untouched_by_a_break(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let first = lock.acquire().await.unwrap();
    let old = first.fence().unwrap();
    first.release().await.unwrap();
    assert_eq!(client.break_lease(lock.name(), old, false).await.unwrap(), BreakReply::NotHeld);
    let newer = lock.acquire().await.unwrap();
    let fence = newer.fence().unwrap();
    for now in [false, true] {
        assert_eq!(client.break_lease(lock.name(), old, now).await.unwrap(), BreakReply::Newer { fence });
        assert_eq!(client.break_lease(lock.name(), fence + 7, now).await.unwrap(), BreakReply::NotHeld);
    }
    newer.renew().await.unwrap();
    assert!(newer.release().await.unwrap());
}

pub(super) async fn a_lease_that_never_expires_is_freed_by_a_break(fixture: &Fixture) {
    if !fixture.given().never {
        return;
    }
    let (client, lock) = lock(fixture, "x").await;
    let lock = lock.ttl(Ttl::Never);
    let victim = lock.acquire().await.unwrap();
    let fence = victim.fence().unwrap();
    let reply = client.break_lease(lock.name(), fence, false).await.unwrap();
    let BreakReply::Broken { free_in } = reply else { panic!("{reply:?}") };
    assert!(!free_in.is_zero() && free_in < LONG, "it has an end now: {free_in:?}");
    assert_eq!(victim.lost().await, Loss::Broken);
    assert!(seen(&client, lock.name()).await.holders[0].expires_in.is_some());
    let reply = client.break_lease(lock.name(), fence, true).await.unwrap();
    assert_eq!(reply, BreakReply::Broken { free_in: Duration::ZERO });
    assert!(lock.try_acquire().await.unwrap().fence().unwrap() > fence);
}
