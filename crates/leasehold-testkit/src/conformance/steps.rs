//! Every step may arrive twice or late.

use leasehold::{
    Loss,
    engine::{Break, BreakReply, Check, ClaimReply, HandOverReply, HoldReply, LeaveReply, ReleaseReply, Renew},
};

use super::kit::{Steps, assert_free, claim, hand_over, id, leave, ms, patient, release, renew, seen, waiters};
use crate::Fixture;

pub(super) async fn a_claim_that_arrives_twice_gets_the_same_fence(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let first = steps.granted(claim(1)).await;
    let second = steps.granted(claim(1)).await;
    assert_eq!((first.id, first.fence, first.tenure), (second.id, second.fence, second.tenure));
    assert!(second.left <= first.left, "and no more time");
    assert_eq!(seen(&steps.client, &steps.name).await.holders.len(), 1);
    let elsewhere = Steps::of(fixture, "x").await;
    assert_eq!(elsewhere.granted(claim(1)).await.fence, first.fence, "also by another client");
}

pub(super) async fn a_queued_claim_that_arrives_twice_has_one_place(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    steps.granted(claim(1)).await;
    assert_eq!(steps.placed(patient(2, None)).await.position, 1);
    assert_eq!(steps.placed(patient(3, None)).await.position, 2);
    assert_eq!(steps.placed(patient(2, None)).await.position, 1);
    assert_eq!(waiters(&steps.client, &steps.name).await, 2);
}

pub(super) async fn a_late_claim_of_one_that_left_is_refused(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    // It gave up before its first claim arrived.
    assert_eq!(steps.ask(leave(1)).await, LeaveReply::Absent);
    assert_eq!(steps.ask(claim(1)).await, ClaimReply::Gone);
    // It gave up waiting.
    steps.granted(claim(2)).await;
    steps.placed(patient(3, None)).await;
    assert_eq!(steps.ask(leave(3)).await, LeaveReply::Waiting);
    assert_eq!(steps.ask(patient(3, None)).await, ClaimReply::Gone);
    steps.ask(release(2)).await;
    assert_eq!(steps.ask(patient(3, None)).await, ClaimReply::Gone);
    assert_free(&steps.client, &steps.name).await;
}

pub(super) async fn a_late_claim_of_one_that_released_is_refused(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    steps.granted(claim(1)).await;
    assert_eq!(steps.ask(release(1)).await, ReleaseReply::Released);
    assert_eq!(steps.ask(claim(1)).await, ClaimReply::Gone);
    // The release overtook the claim.
    assert_eq!(steps.ask(release(2)).await, ReleaseReply::NotHeld(Loss::Expired));
    assert_eq!(steps.ask(claim(2)).await, ClaimReply::Gone);
    assert_free(&steps.client, &steps.name).await;
}

pub(super) async fn a_second_release_says_so(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    steps.granted(claim(1)).await;
    assert_eq!(steps.ask(release(1)).await, ReleaseReply::Released);
    assert_eq!(steps.ask(release(1)).await, ReleaseReply::Already);
    // Also while another has it, and while it lingers.
    steps.granted(claim(2)).await;
    assert_eq!(steps.ask(release(1)).await, ReleaseReply::Already);
    let mut lingering = release(2);
    lingering.linger = Some(ms(30_000).into());
    assert_eq!(steps.ask(lingering).await, ReleaseReply::Released);
    assert_eq!(steps.ask(lingering).await, ReleaseReply::Already);
    assert_eq!(seen(&steps.client, &steps.name).await.holders.len(), 1, "it lingers");
}

pub(super) async fn a_second_leave_finds_nothing(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    steps.granted(patient(1, None)).await;
    steps.placed(patient(2, None)).await;
    assert_eq!(steps.ask(leave(2)).await, LeaveReply::Waiting);
    assert_eq!(steps.ask(leave(2)).await, LeaveReply::Absent);
    assert_eq!(steps.ask(leave(1)).await, LeaveReply::Holding);
    assert_eq!(steps.ask(leave(1)).await, LeaveReply::Absent);
    assert_free(&steps.client, &steps.name).await;
}

pub(super) async fn a_renewal_never_creates_anything(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    assert_eq!(steps.ask(renew(1, 1)).await, HoldReply::Lost(Loss::Expired));
    assert_free(&steps.client, &steps.name).await;
    let grant = steps.granted(claim(1)).await;
    steps.ask(release(1)).await;
    assert_eq!(steps.ask(renew(1, grant.fence)).await, HoldReply::Lost(Loss::Released));
    assert_free(&steps.client, &steps.name).await;
    steps.granted(claim(2)).await;
    steps.placed(patient(3, None)).await;
    assert!(matches!(steps.ask(renew(3, 0)).await, HoldReply::Lost(_)), "a waiter has nothing to renew");
}

pub(super) async fn a_renewal_after_the_end_is_refused(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let mut short = claim(1);
    short.ttl = ms(300).into();
    let grant = steps.granted(short).await;
    tokio::time::sleep(ms(320)).await;
    assert_eq!(steps.ask(renew(1, grant.fence)).await, HoldReply::Lost(Loss::Expired), "nobody else has it, and yet");
    assert_free(&steps.client, &steps.name).await;
    assert!(steps.granted(claim(2)).await.fence > grant.fence);
    assert_eq!(steps.ask(renew(1, grant.fence)).await, HoldReply::Lost(Loss::Overtaken));
}

pub(super) async fn renewals_that_go_together_are_answered_each_on_its_own(fixture: &Fixture) {
    let steps = Steps::of(fixture, "a").await;
    let held = Steps::by(&steps.client, "b");
    let grant = held.granted(claim(2)).await;
    let never = Steps::by(&steps.client, "c");
    let again = Steps::by(&steps.client, "d");
    let twice = again.granted(claim(4)).await;
    let renewals: Vec<(leasehold::Name, Renew)> = vec![
        (steps.name.clone(), renew(1, 1)),
        (held.name.clone(), renew(2, grant.fence)),
        (never.name.clone(), renew(3, 1)),
        (again.name.clone(), renew(4, twice.fence)),
        (again.name.clone(), renew(4, twice.fence)),
        (again.name.clone(), renew(4, twice.fence + 1)),
    ];
    let replies = steps.store().renew_all(renewals).await.unwrap();
    let held: Vec<bool> =
        replies.into_iter().map(|reply| matches!(reply.unwrap(), HoldReply::Held { left: Some(_) })).collect();
    assert_eq!(held, [false, true, false, true, true, false]);
    assert_eq!(steps.store().renew_all(Vec::new()).await.unwrap().len(), 0);
}

pub(super) async fn a_hand_over_that_arrives_twice_is_one(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let grant = steps.granted(claim(1)).await;
    let HandOverReply::Done { fence, left } = steps.ask(hand_over(1, grant.fence, 2)).await else {
        panic!("it was not handed over");
    };
    assert!(fence > grant.fence && left.is_some());
    match steps.ask(hand_over(1, grant.fence, 2)).await {
        HandOverReply::Done { fence: again, .. } => assert_eq!(again, fence),
        other @ HandOverReply::Lost(_) => panic!("{other:?}"),
    }
    // To yet another is another hand-over, and the giver has nothing to give any more.
    assert_eq!(steps.ask(hand_over(1, grant.fence, 3)).await, HandOverReply::Lost(Loss::Overtaken));
    steps.assert_held(id(2), fence).await;
    assert_eq!(steps.ask(claim(1)).await, ClaimReply::Gone, "a late claim of the giver");
}

pub(super) async fn a_second_break_does_no_more(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let grant = steps.granted(claim(1)).await;
    let request = |now| Break { fence: grant.fence, now };
    let BreakReply::Broken { free_in } = steps.ask(request(false)).await else { panic!("not broken") };
    let BreakReply::Broken { free_in: again } = steps.ask(request(false)).await else { panic!("not broken") };
    assert!(again <= free_in && !again.is_zero(), "{again:?} after {free_in:?}");
    assert_eq!(steps.ask(request(true)).await, BreakReply::Broken { free_in: ms(0) });
    assert_eq!(steps.ask(request(true)).await, BreakReply::NotHeld);
    assert_eq!(steps.ask(claim(1)).await, ClaimReply::Gone, "a late claim of the broken one");
}

pub(super) async fn a_check_changes_nothing(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    assert_eq!(steps.ask(Check { id: id(1), fence: 1 }).await, HoldReply::Lost(Loss::Expired));
    let mut short = claim(1);
    short.ttl = ms(300).into();
    let grant = steps.granted(short).await;
    for _ in 0..3 {
        steps.assert_held(id(1), grant.fence).await;
        tokio::time::sleep(ms(30)).await;
    }
    tokio::time::sleep(ms(300)).await;
    let late = steps.ask(Check { id: id(1), fence: grant.fence }).await;
    assert_eq!(late, HoldReply::Lost(Loss::Expired), "to check is not to renew");
}
