//! Nobody but the holder changes a lease.

use leasehold::engine::{Break, BreakReply, Check, HandOverReply, HoldReply, LeaveReply, ReleaseReply};

use super::kit::{Steps, claim, hand_over, id, leave, patient, release, renew, seen};
use crate::Fixture;

/// 1 holds, 2 waits; whatever the closure does must leave that so.
async fn unchanged(fixture: &Fixture, does: impl AsyncFnOnce(&Steps, u64)) {
    let steps = Steps::of(fixture, "x").await;
    let grant = steps.granted(claim(1)).await;
    steps.placed(patient(2, steps.store().client())).await;
    let before = seen(&steps.client, &steps.name).await;
    does(&Steps::of(fixture, "x").await, grant.fence).await;
    let after = seen(&steps.client, &steps.name).await;
    assert_eq!(before.holders.len(), after.holders.len());
    let (was, is) = (&before.holders[0], &after.holders[0]);
    assert_eq!(
        (was.fence, &was.owner, was.acquired_at_ms, was.phase),
        (is.fence, &is.owner, is.acquired_at_ms, is.phase)
    );
    assert!(is.expires_in <= was.expires_in, "nobody renewed it");
    assert_eq!(before.queue.unwrap().len(), after.queue.unwrap().len());
    steps.assert_held(id(1), grant.fence).await;
    assert_eq!(steps.ask(release(1)).await, ReleaseReply::Released);
    assert_eq!(steps.granted(patient(2, steps.store().client())).await.id, id(2), "and the waiter is next");
}

pub(super) async fn a_stranger_changes_nothing(fixture: &Fixture) {
    unchanged(fixture, async |steps, fence| {
        assert!(matches!(steps.ask(renew(9, fence)).await, HoldReply::Lost(_)));
        assert!(matches!(steps.ask(Check { id: id(9), fence }).await, HoldReply::Lost(_)));
        assert!(matches!(steps.ask(release(9)).await, ReleaseReply::NotHeld(_)));
        assert_eq!(steps.ask(leave(9)).await, LeaveReply::Absent);
        assert!(matches!(steps.ask(hand_over(9, fence, 10)).await, HandOverReply::Lost(_)));
    })
    .await;
}

pub(super) async fn the_right_id_with_the_wrong_fence_changes_nothing(fixture: &Fixture) {
    unchanged(fixture, async |steps, fence| {
        for wrong in [fence - 1, fence + 1, 0, u64::MAX] {
            assert!(matches!(steps.ask(renew(1, wrong)).await, HoldReply::Lost(_)), "{wrong}");
            assert!(matches!(steps.ask(Check { id: id(1), fence: wrong }).await, HoldReply::Lost(_)), "{wrong}");
            assert!(matches!(steps.ask(hand_over(1, wrong, 10)).await, HandOverReply::Lost(_)), "{wrong}");
            let reply = steps.ask(Break { fence: wrong, now: true }).await;
            assert!(matches!(reply, BreakReply::Newer { .. } | BreakReply::NotHeld), "{wrong}: {reply:?}");
        }
    })
    .await;
}

pub(super) async fn one_that_was_overtaken_changes_nothing(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let work = |number| {
        let mut claim = claim(number);
        claim.work = Some("batch 7".into());
        claim
    };
    let first = steps.granted(work(1)).await;
    let second = steps.granted(work(2)).await;
    assert_eq!((second.id, second.fence), (first.id, first.fence), "it attached");
    assert_ne!(second.tenure, first.tenure);
    // The first orchestrator knows the id and the fence, and still may do nothing.
    assert!(matches!(steps.ask(renew(1, first.fence)).await, HoldReply::Lost(_)));
    assert!(matches!(steps.ask(release(1)).await, ReleaseReply::NotHeld(_)));
    assert!(matches!(steps.ask(hand_over(1, first.fence, 9)).await, HandOverReply::Lost(_)));
    assert_eq!(steps.ask(leave(1)).await, LeaveReply::Absent);
    steps.assert_held(second.id, second.fence).await;
    let mut renewal = renew(1, second.fence);
    renewal.tenure = Some(second.tenure);
    assert!(matches!(steps.ask(renewal).await, HoldReply::Held { .. }), "the second may");
}

pub(super) async fn a_late_release_does_not_touch_the_successor(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let mut short = claim(1);
    short.ttl = super::kit::ms(100).into();
    steps.granted(short).await;
    tokio::time::sleep(super::kit::ms(120)).await;
    let next = steps.granted(claim(2)).await;
    assert!(matches!(steps.ask(release(1)).await, ReleaseReply::NotHeld(_)));
    steps.assert_held(id(2), next.fence).await;
}
