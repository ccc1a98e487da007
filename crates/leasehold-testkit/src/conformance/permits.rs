//! n permits of a capacity: a lock is 1 of 1.

use leasehold::engine::{Claim, ClaimReply};

use super::kit::{Steps, claim, patient, release, seen};
use crate::Fixture;

fn of_three(permits: u32, claim: Claim) -> Claim {
    Claim { permits, capacity: 3, ..claim }
}

pub(super) async fn permits_are_counted(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let first = steps.granted(of_three(2, claim(1))).await;
    assert!(matches!(steps.ask(of_three(2, claim(2))).await, ClaimReply::Held(_)), "one is left, and two are wanted");
    let second = steps.granted(of_three(1, claim(3))).await;
    assert!(second.fence > first.fence, "each has a fence of its own");
    assert!(matches!(steps.ask(of_three(1, claim(4))).await, ClaimReply::Held(_)), "none is left");
    assert_eq!(seen(&steps.client, &steps.name).await.holders.len(), 2);
    steps.ask(release(1)).await;
    steps.granted(of_three(2, claim(4))).await;
    steps.assert_held(second.id, second.fence).await;
}

pub(super) async fn a_large_claim_is_not_overtaken_by_small_ones(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let here = steps.store().client();
    steps.granted(of_three(2, claim(1))).await;
    let large = of_three(2, patient(2, here));
    steps.placed(large.clone()).await;
    // One permit is free, and yet.
    let small = of_three(1, patient(3, here));
    assert_eq!(steps.placed(small.clone()).await.position, 2);
    assert!(matches!(steps.ask(of_three(1, claim(4))).await, ClaimReply::Held(_)));
    steps.ask(release(1)).await;
    let served = [steps.granted(large).await, steps.granted(small).await];
    assert!(served[0].fence < served[1].fence, "both fit now, in order");
}

pub(super) async fn another_capacity_is_refused(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    steps.granted(of_three(1, claim(1))).await;
    assert_eq!(steps.ask(claim(2)).await, ClaimReply::Mismatch { capacity: 3 });
    assert_eq!(steps.ask(of_three(4, claim(3))).await, ClaimReply::Mismatch { capacity: 3 });
    steps.ask(release(1)).await;
    steps.granted(claim(2)).await;
}
