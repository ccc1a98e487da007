//! The rules, one sentence each.
//!
//! The ttl is 30 s, the waiter ttl 10 s, the claim window 1 s. Attempt 21 is the first of client 2, and so on.

use std::{sync::Arc, time::Duration};

use super::clock::{At, DAY};
use crate::{
    engine::{
        Break, BreakReply, Claim, ClaimReply, Command, Grant, HandOver, HandOverReply, HoldReply, Leave, LeaveReply,
        News, Queueing, Record, Release, ReleaseReply, Renew, Request, Silence, Span, Wake, Who, apply,
    },
    error::Loss,
    id::{AttemptId, ClientId},
};

const MINUTE: Option<Span> = Some(Span::from_millis(60_000));
const TTL: Option<Duration> = Some(Duration::from_secs(30));
const WINDOW: Option<Duration> = Some(Duration::from_secs(1));

/// One name.
#[derive(Default)]
struct Name {
    record: Record,
    millis: u64,
    floor: u64,
    wakes: Vec<Wake>,
}

fn id(attempt: u64) -> AttemptId {
    AttemptId::from_bits(attempt.into())
}

fn claim(attempt: u64) -> Claim {
    Claim {
        id: id(attempt),
        permits: 1,
        capacity: 1,
        ttl: Span::from_millis(30_000),
        max_hold: None,
        client: Some(ClientId::from_bits(attempt / 10)),
        told: None,
        queue: Some(Queueing { waiter_ttl: Span::from_millis(10_000), window: Span::from_millis(1_000) }),
        work: None,
        who: Arc::new(Who { owner: format!("attempt {attempt}").into(), reason: None }),
    }
}

impl Name {
    fn ask<R: Request>(&mut self, request: R) -> R::Reply {
        let command: Command = request.into();
        R::reply(self.apply(&command)).unwrap()
    }

    fn apply(&mut self, command: &Command) -> crate::engine::Reply {
        let at = At { now: self.millis * 1000, floor: self.floor };
        let applied = apply(&mut self.record, command, &at);
        self.wakes = applied.wakes;
        applied.reply
    }

    fn wait(&mut self, millis: u64) {
        self.millis += millis;
    }

    fn claim(&mut self, attempt: u64) -> ClaimReply {
        self.ask(claim(attempt))
    }

    /// Claims, and has to be granted it.
    fn take(&mut self, claim: Claim) -> Grant {
        match self.ask(claim) {
            ClaimReply::Granted(grant) => grant,
            other => panic!("not granted, but {other:?}"),
        }
    }

    /// Claims, and has to wait.
    fn queue(&mut self, attempt: u64) -> (u32, Option<Duration>) {
        match self.claim(attempt) {
            ClaimReply::Queued(queued) => (queued.position, queued.wake_in),
            other => panic!("not queued, but {other:?}"),
        }
    }

    fn renew(&mut self, grant: Grant) -> HoldReply {
        self.ask(Renew { id: grant.id, fence: grant.fence, tenure: Some(grant.tenure), not_after_ms: None })
    }

    fn release(&mut self, grant: Grant) -> ReleaseReply {
        self.ask(Release { id: grant.id, tenure: Some(grant.tenure), linger: None, remember: None })
    }

    /// News of the last grant.
    fn offer(&self) -> News {
        News::Offer { fence: self.record.fence }
    }

    /// Who was told what in the last step.
    fn told(&self) -> Vec<(AttemptId, News)> {
        self.wakes.iter().map(|wake| (wake.id, wake.news)).collect()
    }
}

#[test]
fn a_claim_that_arrives_twice_is_one_grant() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    assert_eq!(name.take(claim(11)), first);
    assert_eq!(name.record.holders.len(), 1);
}

#[test]
fn a_release_offers_the_name_to_the_next_in_the_same_step_and_tells_it() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    assert_eq!(name.queue(21), (1, TTL));
    assert_eq!(name.queue(31), (2, TTL));
    assert_eq!(name.release(first), ReleaseReply::Released);
    assert_eq!(name.told(), [(id(21), name.offer()), (id(31), News::Next { in_ms: 1_000 })]);

    let offer = name.take(claim(21));
    assert!(offer.offered && offer.left == WINDOW && offer.fence > first.fence);
    assert_eq!(name.renew(offer), HoldReply::Held { left: TTL });
}

#[test]
fn a_dead_waiter_at_the_head_costs_one_claim_window() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.queue(21);
    name.queue(31);
    name.release(first);
    assert_eq!(name.queue(31), (1, WINDOW));
    name.wait(1_000);
    assert_eq!(name.take(claim(31)).left, TTL);
}

#[test]
fn a_stopped_client_with_many_waiters_costs_one_claim_window() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    for attempt in [21, 22, 23, 31] {
        name.queue(attempt);
    }
    name.release(first);
    assert!(name.told().contains(&(id(31), News::Next { in_ms: 1_000 })));
    name.wait(1_000);
    name.take(claim(31));
}

#[test]
fn a_dead_holder_and_a_dead_head_cost_the_ttl_and_one_claim_window() {
    let mut name = Name::default();
    name.take(claim(11));
    name.queue(21);
    let (_, wake_in) = name.queue(31);
    assert_eq!(wake_in, TTL);
    name.millis = 9_000;
    name.queue(21);
    name.queue(31);
    name.millis = 18_000;
    name.queue(21);
    name.queue(31);
    name.millis = 27_000;
    name.queue(21);
    name.queue(31);
    name.millis = 30_000;
    assert_eq!(name.queue(31), (1, WINDOW));
    name.millis = 31_000;
    name.take(claim(31));
}

#[test]
fn a_waiter_that_nobody_receives_for_is_passed_over_at_once() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.queue(21);
    name.queue(31);
    name.release(first);
    let lost = name.wakes[0];
    name.apply(&Command::Silence(Silence { client: lost.client, offer: lost.news.offer() }));
    assert_eq!(name.told(), [(id(31), name.offer())]);
}

#[test]
fn an_offer_that_a_claim_was_told_of_is_not_taken_back() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.queue(21);
    name.queue(31);
    name.release(first);
    let lost = name.wakes[0];
    let offer = name.take(claim(21));
    name.apply(&Command::Silence(Silence { client: lost.client, offer: lost.news.offer() }));
    assert_eq!(name.renew(offer), HoldReply::Held { left: TTL });
}

#[test]
fn a_waiter_that_reconnects_keeps_its_place() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.queue(21);
    name.queue(31);
    name.wait(9_999);
    let again = Claim { client: Some(ClientId::from_bits(7)), ..claim(21) };
    assert!(matches!(name.ask(again), ClaimReply::Queued(queued) if queued.position == 1));
    name.release(first);
    assert_eq!((name.wakes[0].id, name.wakes[0].client), (id(21), ClientId::from_bits(7)));
}

#[test]
fn a_waiter_that_was_silent_stands_in_front_again_when_it_is_heard() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.queue(21);
    name.queue(31);
    name.release(first);
    name.wait(1_000);
    let second = name.take(claim(31));
    name.queue(41);
    assert_eq!(name.queue(21).0, 1);
    name.release(second);
    assert_eq!(name.told()[0], (id(21), name.offer()));
}

#[test]
fn a_waiter_that_is_not_heard_for_its_ttl_loses_its_place() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.queue(21);
    name.wait(5_000);
    name.queue(31);
    name.wait(5_000);
    name.release(first);
    assert_eq!(name.told()[0], (id(31), name.offer()));
    assert_eq!(name.queue(21).0, 1, "it stands behind, as one that comes anew");
}

#[test]
fn a_waiter_that_its_living_client_forgot_costs_one_claim_window_once() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.queue(21);
    name.queue(22);
    name.release(first);
    assert_eq!(name.queue(22), (1, WINDOW));
    name.wait(1_000);
    let second = name.take(claim(22));
    name.release(second);
    name.take(claim(23));
}

#[test]
fn a_newcomer_does_not_pass_one_that_waits_for_more_permits() {
    let wants = |attempt, permits| Claim { permits, capacity: 3, ..claim(attempt) };
    let mut name = Name::default();
    name.take(wants(11, 2));
    assert!(matches!(name.ask(wants(21, 3)), ClaimReply::Queued(_)));
    assert!(matches!(name.ask(wants(31, 1)), ClaimReply::Queued(queued) if queued.position == 2));
    assert_eq!(name.ask(wants(41, 4)), ClaimReply::Mismatch { capacity: 3 });
}

#[test]
fn a_late_claim_after_giving_up_is_refused() {
    let mut name = Name::default();
    assert_eq!(name.ask(Leave { id: id(11), remember: MINUTE }), LeaveReply::Absent);
    assert_eq!(name.claim(11), ClaimReply::Gone);
    name.wait(60_000);
    name.take(claim(21));
    assert!(name.record.tombstones.is_empty());
}

#[test]
fn giving_up_passes_on_the_grant_that_raced_with_it() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.queue(21);
    name.queue(31);
    name.release(first);
    assert_eq!(name.ask(Leave { id: id(21), remember: MINUTE }), LeaveReply::Holding);
    assert_eq!(name.told(), [(id(31), name.offer())]);
}

#[test]
fn a_second_release_says_so_and_a_late_one_leaves_the_next_holder_alone() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    let release = Release { id: first.id, tenure: Some(0), linger: None, remember: MINUTE };
    assert_eq!(name.ask(release), ReleaseReply::Released);
    let second = name.take(claim(21));
    assert_eq!(name.ask(release), ReleaseReply::Already);
    assert_eq!(name.renew(second), HoldReply::Held { left: TTL });
}

#[test]
fn a_late_renewal_revives_nothing() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.wait(30_000);
    assert_eq!(name.renew(first), HoldReply::Lost(Loss::Expired));
    name.take(claim(21));
    assert_eq!(name.renew(first), HoldReply::Lost(Loss::Overtaken));
}

#[test]
fn no_renewal_reaches_beyond_max_hold_or_not_after() {
    let mut name = Name::default();
    let grant = name.take(Claim { max_hold: Some(Span::from_millis(40_000)), ..claim(11) });
    name.wait(20_000);
    assert_eq!(name.renew(grant), HoldReply::Held { left: Some(Duration::from_secs(20)) });
    let renew = |at: u64| Renew { id: grant.id, fence: grant.fence, tenure: None, not_after_ms: Some(DAY + at) };
    assert_eq!(
        name.ask(renew(25_000)),
        HoldReply::Held { left: Some(Duration::from_secs(5)) },
        "its bearer's own right"
    );
    assert_eq!(name.renew(grant), HoldReply::Held { left: Some(Duration::from_secs(20)) }, "it is not shortened");
    assert_eq!(name.ask(renew(20_000)), HoldReply::Lost(Loss::Capped));
}

#[test]
fn a_min_hold_keeps_the_name_taken_after_its_release() {
    let mut name = Name::default();
    let grant = name.take(claim(11));
    let linger = Some(Span::from_millis(5_000));
    name.ask(Release { id: grant.id, tenure: Some(0), linger, remember: None });
    assert_eq!(name.renew(grant), HoldReply::Lost(Loss::Released));
    assert_eq!(name.queue(21), (1, Some(Duration::from_secs(5))));
    name.wait(5_000);
    name.take(claim(21));
}

#[test]
fn a_hand_over_delivered_twice_answers_the_same() {
    let mut name = Name::default();
    let giver = name.take(claim(11));
    let hand_over = HandOver { id: giver.id, fence: giver.fence, tenure: Some(0), to: id(21) };
    let first = name.ask(hand_over);
    let HandOverReply::Done { fence, left } = first else { panic!("not handed over, but {first:?}") };
    assert!(fence > giver.fence && left == TTL);
    assert_eq!(name.ask(hand_over), first);
    assert_eq!(name.renew(giver), HoldReply::Lost(Loss::Overtaken));
    assert_eq!(name.claim(11), ClaimReply::Gone, "a late claim of the giver's");
    let receiver = Grant { id: id(21), fence, ..giver };
    name.release(receiver);
    assert!(name.take(claim(31)).fence > fence);
}

#[test]
fn breaking_with_an_old_fence_leaves_the_newer_holder() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.release(first);
    let second = name.take(claim(21));
    let reply = name.ask(Break { fence: first.fence, now: true });
    assert_eq!(reply, BreakReply::Newer { fence: second.fence });
    assert_eq!(name.renew(second), HoldReply::Held { left: TTL });
}

#[test]
fn a_broken_lease_runs_out_unless_it_is_to_end_now() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    let soft = Break { fence: first.fence, now: false };
    name.wait(10_000);
    let free_in = Duration::from_secs(20);
    assert_eq!(name.ask(soft), BreakReply::Broken { free_in });
    assert_eq!(name.told(), [(id(11), News::Broken)]);
    assert_eq!(name.ask(soft), BreakReply::Broken { free_in });
    assert_eq!(name.renew(first), HoldReply::Lost(Loss::Broken));
    assert_eq!(name.queue(21), (1, Some(free_in)));
    assert_eq!(name.ask(Break { now: true, ..soft }), BreakReply::Broken { free_in: Duration::ZERO });
    assert!(name.take(claim(21)).fence > first.fence + 1, "a break uses up a fence");
}

#[test]
fn a_lease_that_never_expires_is_freed_by_a_break() {
    let mut name = Name::default();
    let grant = name.take(Claim { ttl: Span::NEVER, ..claim(11) });
    assert_eq!(grant.left, None);
    assert_eq!(name.queue(21), (1, None));
    name.ask(Break { fence: grant.fence, now: false });
    assert_eq!(name.queue(21).1, TTL, "its holder has time to learn of it");
    name.wait(30_000);
    name.take(claim(31));
}

#[test]
fn whoever_attaches_overtakes_the_orchestrator_before_it_and_keeps_the_fence() {
    let worker = |attempt| Claim { work: Some("batch 7".into()), ..claim(attempt) };
    let mut name = Name::default();
    let first = name.take(worker(11));
    let second = name.take(worker(21));
    assert_eq!((second.id, second.fence, second.tenure), (first.id, first.fence, 1));
    assert_eq!(name.take(worker(21)), second, "its claim arrives twice");
    assert_eq!(name.renew(first), HoldReply::Lost(Loss::Overtaken));
    assert_eq!(name.release(first), ReleaseReply::NotHeld(Loss::Overtaken));
    assert_eq!(name.ask(worker(11)), ClaimReply::Gone);
    let sharer = Renew { id: first.id, fence: first.fence, tenure: None, not_after_ms: None };
    assert_eq!(name.ask(sharer), HoldReply::Held { left: TTL });

    let third = name.take(worker(31));
    assert_eq!(name.ask(worker(21)), ClaimReply::Gone, "a late claim does not take it back");
    assert_eq!(name.renew(third), HoldReply::Held { left: TTL });
}

#[test]
fn fences_grow_though_the_record_was_lost() {
    let mut name = Name::default();
    let first = name.take(claim(11));
    name.release(first);
    assert!(name.record.is_idle());
    let mut name = Name { floor: name.record.fence + 1, ..Name::default() };
    assert!(name.take(claim(21)).fence > first.fence);
}
