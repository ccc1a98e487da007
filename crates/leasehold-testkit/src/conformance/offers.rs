//! What was waited for is offered for a claim window first: nobody may notice.

use leasehold::{Lease, Lock, Ttl};

use super::kit::{EPSILON, SHORT, contended, lock, ms, queued};
use crate::Fixture;

/// Waits for a name as `wish` says, and is handed it by its holder.
async fn waited_for(fixture: &Fixture, wish: impl FnOnce(Lock) -> Lock) -> (Lease, Lock) {
    let (client, lock) = lock(fixture, "x").await;
    let first = lock.acquire().await.unwrap();
    let wished = wish(fixture.client().await.lock("x").unwrap());
    let waiter = tokio::spawn(async move { wished.acquire().await.unwrap() });
    queued(&client, first.name(), 1).await;
    assert!(first.release().await.unwrap());
    (waiter.await.unwrap(), lock)
}

pub(super) async fn a_confirmed_lease_has_its_whole_ttl_though_it_was_waited_for(fixture: &Fixture) {
    let (lease, _) = waited_for(fixture, |lock| lock.ttl(10 * SHORT).confirmed(true)).await;
    assert!(lease.remaining().unwrap() > 5 * SHORT, "{lease:?}");
    assert!(lease.release().await.unwrap());
}

pub(super) async fn one_that_is_not_kept_alive_lasts_its_ttl_though_it_was_waited_for(fixture: &Fixture) {
    let (lease, lock) = waited_for(fixture, |lock| lock.ttl(4 * SHORT).keep_alive(false)).await;
    tokio::time::sleep(2 * SHORT).await;
    assert!(lease.is_valid(), "{lease:?}");
    contended(lock.try_acquire().await);
    assert!(lease.release().await.unwrap());
}

pub(super) async fn one_that_never_expires_does_not_though_it_was_waited_for(fixture: &Fixture) {
    let (lease, lock) = waited_for(fixture, |lock| lock.ttl(Ttl::Never)).await;
    assert_eq!(lease.remaining(), None);
    let ticket = lease.detach();
    tokio::time::sleep(SHORT + EPSILON / 2).await;
    contended(lock.acquire_timeout(ms(10)).await);
    assert!(fixture.client().await.release(&ticket).await.unwrap());
}
