//! How long a lease lasts at most and at least.

use leasehold::{ErrorKind, Loss, Phase, Ttl, clock::Moment};

use super::kit::{EPSILON, LONG, SHORT, assert_kind, contended, lock, ms, queued, seen};
use crate::Fixture;

pub(super) async fn without_keep_alive_it_ends_after_its_ttl(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let began = client.now();
    let lease = lock.ttl(SHORT).keep_alive(false).acquire().await.unwrap();
    assert_eq!(lease.lost().await, Loss::Expired);
    let took = client.now().since(began);
    assert!(took >= SHORT * 9 / 10 && took < SHORT + EPSILON, "{took:?}");
    assert_eq!(lease.remaining(), Some(ms(0)));
    assert_kind(lease.renew().await, ErrorKind::Lost);
}

pub(super) async fn max_hold_ends_it_however_often_it_is_renewed(fixture: &Fixture) {
    let most = SHORT * 3 / 2;
    // Also where the whole ttl would be longer.
    for (name, ttl) in [("x", SHORT), ("y", LONG)] {
        let (client, lock) = lock(fixture, name).await;
        let other = fixture.client().await.lock(name).unwrap();
        let asked = client.now();
        let lease = lock.ttl(ttl).max_hold(most).acquire().await.unwrap();
        lease.renew().await.unwrap();
        assert_eq!(lease.lost().await, Loss::Capped);
        let took = client.now().since(asked);
        assert!(took >= most * 4 / 10 && took < most + EPSILON, "{took:?}");
        assert_eq!(lease.loss(), Some(Loss::Capped));
        let next = other.acquire_timeout(EPSILON).await.unwrap();
        assert!(next.is_valid() && client.now() >= lease.deadline());
    }
}

pub(super) async fn min_hold_keeps_the_name_taken_after_the_release(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let least = SHORT;
    let asked = client.now();
    let lease = lock.clone().min_hold(least).acquire().await.unwrap();
    assert!(lease.release().await.unwrap());
    let holder = contended(lock.try_acquire().await).holder.unwrap();
    assert_eq!(holder.phase, Phase::Lingering);
    assert!(holder.expires_in.unwrap() <= least);

    let next = lock.acquire().await.unwrap();
    let took = client.now().since(asked);
    assert!(took >= least, "once per {least:?}, and it took {took:?}");
    assert!(took < least + EPSILON, "{took:?}");
    next.release().await.unwrap();

    // Held longer than that, it is free at once; and so by being dropped.
    let lease = lock.clone().min_hold(ms(20)).acquire().await.unwrap();
    tokio::time::sleep(ms(30)).await;
    lease.release().await.unwrap();
    drop(lock.clone().min_hold(LONG).try_acquire().await.unwrap());
    client.clone().close().await;
    assert_eq!(contended(lock.try_acquire().await).holder.unwrap().phase, Phase::Lingering);
}

pub(super) async fn min_validity_is_there_when_it_is_acquired(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let holder = lock.clone().acquire().await.unwrap();
    // An offer is for the claim window only, which is one second: less than this.
    let waiter = tokio::spawn({
        let lock = fixture.client().await.lock("x").unwrap().ttl(LONG).min_validity(LONG / 2);
        async move { lock.acquire().await.unwrap() }
    });
    queued(&client, lock.name(), 1).await;
    holder.release().await.unwrap();
    let lease = waiter.await.unwrap();
    assert!(lease.remaining().unwrap() > LONG / 2 - EPSILON, "{:?}", lease.remaining());
}

pub(super) async fn a_lease_that_never_expires_stays(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let never = lock.clone().ttl(Ttl::Never);
    if !fixture.given().never {
        return assert_kind(never.try_acquire().await, ErrorKind::Unsupported);
    }
    let lease = never.acquire().await.unwrap();
    assert_eq!((lease.ttl(), lease.remaining(), lease.deadline()), (Ttl::Never, None, Moment::NEVER));
    lease.renew().await.unwrap();
    assert_eq!(seen(&client, lease.name()).await.holders[0].expires_in, None);
    assert!(contended(lock.acquire_timeout(SHORT).await).to_string().contains("never expires"));
    assert!(lease.is_valid() && lease.release().await.unwrap());
    // Its waiters wait for nothing but the release.
    let lease = never.acquire().await.unwrap();
    let waiter = tokio::spawn(async move { never.acquire().await.unwrap() });
    queued(&client, lock.name(), 1).await;
    lease.release().await.unwrap();
    let next = waiter.await.unwrap();
    next.renew().await.unwrap();
    assert_eq!(next.remaining(), None);
}
