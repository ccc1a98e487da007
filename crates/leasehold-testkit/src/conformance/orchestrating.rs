//! A restarted orchestrator attaches to the lease of its work.

use leasehold::{ErrorKind, Loss, Rights};

use super::kit::{SHORT, assert_kind, contended, lock, ms, seen};
use crate::Fixture;

pub(super) async fn the_same_work_attaches_and_its_predecessor_is_told(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "batch").await;
    let lock = lock.ttl(2 * SHORT).work("batch 7");
    let first = lock.clone().owner("first").acquire().await.unwrap();
    let remote = fixture.client().await.accept(&first.share(Rights::RENEW)).await.unwrap();

    let restarted = fixture.client().await.lock("batch").unwrap().ttl(2 * SHORT).work("batch 7").owner("second");
    let second = restarted.try_acquire().await.unwrap();
    assert_eq!(second.fence(), first.fence(), "it is the same lease");
    assert_eq!(&*seen(&client, second.name()).await.holders[0].owner, "second");
    let attached = client.now();
    assert_eq!(first.lost().await, Loss::Overtaken);
    assert!(client.now().since(attached) < 2 * SHORT, "at its next renewal at the latest");
    tokio::time::sleep(SHORT).await;
    assert_eq!((second.loss(), remote.loss()), (None, None), "the work's own party goes on");
    assert!(second.release().await.unwrap());
}

pub(super) async fn a_predecessor_that_was_overtaken_cannot_end_the_lease(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "batch").await;
    let lock = lock.work("batch 7");
    // Each way of ending it, before the predecessor is told.
    let dropped = lock.acquire().await.unwrap();
    let released = lock.acquire().await.unwrap();
    let handed_over = lock.acquire().await.unwrap();
    let last = lock.acquire().await.unwrap();
    assert_eq!(dropped.fence(), last.fence());
    drop(dropped);
    assert!(!released.release().await.unwrap());
    assert_kind(handed_over.hand_over().await, ErrorKind::Lost);
    client.clone().close().await;
    last.renew().await.unwrap();
    assert!(last.release().await.unwrap());
}

pub(super) async fn other_work_waits(fixture: &Fixture) {
    let (_, lock) = lock(fixture, "batch").await;
    let first = lock.clone().work("batch 7").acquire().await.unwrap();
    contended(lock.clone().work("batch 8").try_acquire().await);
    contended(lock.clone().work("batch 8").acquire_timeout(ms(50)).await);
    contended(lock.try_acquire().await);
    first.release().await.unwrap();
    let other = lock.work("batch 8").try_acquire().await.unwrap();
    assert!(other.release().await.unwrap());
}

pub(super) async fn a_restarted_orchestrator_does_not_disturb_its_remote(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "batch").await;
    let lock = lock.ttl(2 * SHORT).work("batch 7");
    // The ticket that an orchestrator has for itself, given to the remote as it is.
    let ticket = lock.acquire().await.unwrap().detach();
    let remote = fixture.client().await.accept(&ticket).await.unwrap();
    let restarted = lock.acquire().await.unwrap();
    assert_eq!(restarted.fence(), remote.fence());
    tokio::time::sleep(3 * SHORT).await;
    assert_eq!((restarted.loss(), remote.loss()), (None, None));
    assert_kind(client.renew(&ticket).await, ErrorKind::Lost);
    assert!(restarted.release().await.unwrap());
}

pub(super) async fn who_attaches_goes_by_the_ttl_of_the_lease(fixture: &Fixture) {
    let (_, lock) = lock(fixture, "batch").await;
    let first = lock.clone().ttl(2 * SHORT).work("batch 7").acquire().await.unwrap();
    let second = lock.ttl(30 * SHORT).work("batch 7").confirmed(true).min_validity(20 * SHORT).acquire().await.unwrap();
    assert_eq!(second.ttl(), first.ttl());
    assert!(second.remaining().unwrap() < 2 * SHORT);
    tokio::time::sleep(5 * SHORT).await;
    assert!(second.is_valid(), "it is renewed in time");
    assert!(second.release().await.unwrap());
}
