//! The keeper renews for as long as it should.

use std::time::Duration;

use leasehold::Loss;

use super::kit::{EPSILON, SHORT, contended, lock, ms, seen};
use crate::Fixture;

pub(super) async fn the_keeper_renews_over_several_ttls(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let other = fixture.client().await.lock("x").unwrap();
    let lease = lock.ttl(SHORT).acquire().await.unwrap();
    let end = client.now() + 3 * SHORT + SHORT / 2;
    while client.now() < end {
        assert_eq!(lease.loss(), None);
        assert_eq!(contended(other.try_acquire().await).holder.unwrap().fence, lease.fence());
        tokio::time::sleep(ms(100)).await;
    }
    assert!(lease.release().await.unwrap());
}

pub(super) async fn the_keeper_renews_while_the_executor_is_blocked(fixture: &Fixture) {
    let client = fixture.client().await;
    let blocked = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let lease = client.lock("x").unwrap().ttl(SHORT).acquire().await.unwrap();
            std::thread::sleep(SHORT * 5 / 2);
            assert_eq!(lease.loss(), None, "the program did not yield for longer than its ttl");
            let holders = seen(&client, lease.name()).await.holders;
            assert_eq!(holders[0].fence, lease.fence());
            assert!(lease.release().await.unwrap());
        });
    };
    tokio::task::spawn_blocking(blocked).await.unwrap();
}

pub(super) async fn one_client_keeps_many_leases(fixture: &Fixture) {
    let client = fixture.client().await;
    let mut leases = Vec::new();
    for n in 0..300 {
        leases.push(client.lock(format!("n{n}")).unwrap().ttl(2 * SHORT).acquire().await.unwrap());
    }
    tokio::time::sleep(2 * SHORT + SHORT / 2).await;
    for lease in leases {
        assert_eq!(lease.loss(), None, "{}", lease.name());
    }
}

pub(super) async fn a_program_that_makes_no_progress_loses(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let lease = lock.ttl(SHORT).acquire().await.unwrap();
    let began = client.now();
    let _progress = lease.while_progress(SHORT);
    assert_eq!(lease.lost().await, Loss::Stalled);
    let took = client.now().since(began);
    assert!(took >= SHORT, "it had that long: {took:?}");
    assert!(took < 2 * SHORT + EPSILON, "{took:?}");
    assert!(!lease.is_valid());
    let other = fixture.client().await.lock("x").unwrap();
    assert!(other.acquire_timeout(SHORT + EPSILON).await.unwrap().is_valid());
}

pub(super) async fn a_program_that_makes_progress_keeps(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let lease = lock.ttl(SHORT).acquire().await.unwrap();
    let progress = lease.while_progress(Duration::from_millis(1500));
    let end = client.now() + 3 * SHORT;
    while client.now() < end {
        progress.tick();
        tokio::time::sleep(ms(100)).await;
    }
    assert_eq!(lease.loss(), None);
    assert!(lease.release().await.unwrap());
}
