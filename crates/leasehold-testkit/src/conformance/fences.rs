//! The number that only grows.

use leasehold::{BreakReply, Client};

use super::kit::{SHORT, lock};
use crate::Fixture;

/// Takes the name once, and gives it back.
async fn fence_of_one_more(client: &Client) -> Option<u64> {
    let lease = client.lock("x").unwrap().acquire().await.unwrap();
    let fence = lease.fence();
    lease.release().await.unwrap();
    fence
}

/// Each is larger than the one before; `None` throughout where there are none.
#[track_caller]
fn assert_grown(fixture: &Fixture, fences: &[Option<u64>]) {
    assert!(fences.iter().all(|fence| fence.is_some() == fixture.given().fence), "{fences:?}");
    assert!(!fixture.given().fence || fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

pub(super) async fn fences_grow_over_acquisitions_of_several_clients(fixture: &Fixture) {
    let clients = [fixture.client().await, fixture.client().await, fixture.client().await];
    let mut fences = Vec::new();
    for n in 0..30 {
        fences.push(fence_of_one_more(&clients[n % 3]).await);
        // Another name in between takes nothing from this one.
        clients[n % 2].lock("y").unwrap().try_acquire().await.unwrap().release().await.unwrap();
    }
    assert_grown(fixture, &fences);
}

pub(super) async fn fences_grow_when_a_lease_expires(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let first = lock.ttl(SHORT / 4).keep_alive(false).acquire().await.unwrap();
    first.lost().await;
    let second = fence_of_one_more(&client).await;
    assert_grown(fixture, &[first.fence(), second]);
}

pub(super) async fn fences_grow_over_a_hand_over(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let lease = lock.acquire().await.unwrap();
    let mut fences = vec![lease.fence()];
    let ticket = lease.hand_over().await.unwrap();
    fences.push(ticket.fence());
    let again = client.adopt(&ticket).await.unwrap();
    assert_eq!(again.fence(), ticket.fence());
    fences.push(again.hand_over().await.unwrap().fence());
    let reply = client.break_lease(lock.name(), fences[2].unwrap_or_default(), true).await.unwrap();
    assert!(matches!(reply, BreakReply::Broken { .. }), "{reply:?}");
    fences.push(fence_of_one_more(&client).await);
    assert_grown(fixture, &fences);
}

pub(super) async fn a_break_uses_up_a_fence(fixture: &Fixture) {
    for now in [true, false] {
        let (client, lock) = lock(fixture, "x").await;
        let lease = lock.ttl(SHORT / 2).acquire().await.unwrap();
        let broken = lease.fence().unwrap_or_default();
        client.break_lease(lease.name(), broken, now).await.unwrap();
        let next = fence_of_one_more(&client).await;
        assert_grown(fixture, &[lease.fence(), next]);
        if fixture.given().fence {
            // A resource that was shown the break's own number refuses the broken holder, and nobody else has it.
            assert!(next > Some(broken + 1), "{next:?} after a break of {broken}");
        }
    }
}

pub(super) async fn fences_grow_over_reopening_the_store(fixture: &Fixture) {
    // What is kept in one process goes with its last client.
    let _anchor = if fixture.given().processes { None } else { Some(fixture.client().await) };
    let mut fences = Vec::new();
    for _ in 0..5 {
        let client = fixture.client().await;
        fences.push(fence_of_one_more(&client).await);
        fences.push(fence_of_one_more(&client).await);
        client.close().await;
    }
    assert_grown(fixture, &fences);
}
