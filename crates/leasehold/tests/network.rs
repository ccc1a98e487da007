//! Requests that are lost, answers that are lost, answers that are late: unknown is neither lost nor held.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold::{
    Client, ErrorKind, Lock, Loss, Name, Rights, Validity,
    engine::{ClaimReply, Command, HoldReply, Reply},
};
use leasehold_testkit::network::{Fate, Network};

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_secs(1);

async fn setting() -> (Arc<Network>, Client, Lock) {
    let network = Network::new().await;
    let client = network.client().await;
    let lock = client.lock("x").unwrap().ttl(LONG);
    (network, client, lock)
}

async fn holders(network: &Network) -> usize {
    let name: Name = "x".parse().unwrap();
    network.bystander().await.inspect(&name).await.unwrap().holders.len()
}

fn is_claim(command: &Command) -> bool {
    matches!(command, Command::Claim(_))
}

fn is_renewal(command: &Command) -> bool {
    matches!(command, Command::Renew(_))
}

fn is_release(command: &Command) -> bool {
    matches!(command, Command::Release(_))
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_asked_again_and_is_one_lease() {
    let (network, _client, lock) = setting().await;
    network.once(Fate::Unanswered, is_claim);
    let lease = lock.acquire().await.unwrap();
    assert_eq!(lease.attempts(), 2);
    assert_eq!(holders(&network).await, 1);
    lease.renew().await.unwrap();
    assert!(lease.release().await.unwrap());
    assert_eq!(holders(&network).await, 0);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_given_back_by_one_that_gives_up() {
    let (network, _client, lock) = setting().await;
    network.decide(|command| if is_claim(command) { Fate::Unanswered } else { Fate::Answered });
    let error = lock.acquire_timeout(Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(holders(&network).await, 0, "it had been granted, and nobody knew");
}

#[tokio::test]
async fn a_claim_that_comes_after_its_attempt_was_dropped_is_refused() {
    let (network, client, lock) = setting().await;
    network.decide(|command| if is_claim(command) { Fate::HeldBack } else { Fate::Answered });
    assert!(tokio::time::timeout(Duration::from_millis(100), lock.acquire()).await.is_err());
    client.close().await;
    assert_eq!(network.let_through().await, Reply::Claim(ClaimReply::Gone));
    assert_eq!(holders(&network).await, 0);
}

#[tokio::test]
async fn a_store_that_was_never_reached_is_given_up_after_five_seconds() {
    let (network, client, lock) = setting().await;
    network.decide(|_| Fate::HeldBack);
    let began = client.now();
    assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Unavailable);
    let took = client.now().since(began);
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(9), "{took:?}");
}

#[tokio::test]
async fn one_that_waits_outlasts_a_store_that_goes_away() {
    let (network, client, lock) = setting().await;
    let holder = network.bystander().await.lock("x").unwrap().acquire().await.unwrap();
    let away = Arc::new(AtomicU32::new(0));
    let waiter = tokio::spawn({
        let away = away.clone();
        let lock = lock.clone().on_wait(move |waiting| {
            away.fetch_add(u32::from(waiting.store_away.is_some()), Ordering::SeqCst);
        });
        async move { lock.acquire().await.unwrap() }
    });
    while client.inspect(lock.name()).await.unwrap().queue.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    network.decide(|_| Fate::HeldBack);
    holder.release().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    network.decide(|_| Fate::Answered);
    assert!(waiter.await.unwrap().is_valid());
    assert!(away.load(Ordering::SeqCst) > 0, "and it is told why it waits");
}

#[tokio::test]
async fn the_time_that_an_answer_takes_is_the_holders_to_lose() {
    let (network, client, lock) = setting().await;
    let slow = Duration::from_millis(300);
    network.decide(move |_| Fate::Slow(slow));
    let margin = LONG / 100 + Duration::from_millis(2);
    let asked = client.now();
    let lease = lock.acquire().await.unwrap();
    assert!(lease.deadline() <= asked + slow / 2 + LONG - margin, "counted from before the claim was sent");
    let asked = client.now();
    lease.renew().await.unwrap();
    assert!(lease.deadline() >= asked + LONG - margin, "the renewal counts");
    assert!(lease.deadline() <= asked + slow / 2 + LONG - margin, "from before it was sent");
    let asked = client.now();
    let ticket = lease.share(Rights::RENEW);
    let bearer = client.accept(&ticket).await.unwrap();
    assert!(bearer.deadline() <= asked + slow / 2 + LONG - margin);
    for validity in [client.renew(&ticket).await.unwrap(), client.check(&ticket).await.unwrap()] {
        assert!(matches!(validity, Validity::For(left) if left + margin + slow <= LONG), "{validity:?}");
    }
}

#[tokio::test]
async fn the_keepers_renewals_count_from_before_they_were_sent() {
    let (network, client, lock) = setting().await;
    let slow = Duration::from_millis(400);
    let lease = lock.ttl(2 * SHORT).acquire().await.unwrap();
    let first = lease.deadline();
    network.decide(move |command| if is_renewal(command) { Fate::Slow(slow) } else { Fate::Answered });
    while lease.deadline() == first {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let left = lease.deadline().since(client.now());
    assert!(left + slow <= 2 * SHORT, "{left:?} of {:?} after an answer that took {slow:?}", 2 * SHORT);
}

#[tokio::test]
async fn renewals_that_fail_now_and_then_end_nothing() {
    let (network, _client, lock) = setting().await;
    let lease = lock.ttl(SHORT).acquire().await.unwrap();
    let mut count = 0;
    network.decide(move |command| {
        count += u32::from(is_renewal(command));
        match count % 3 {
            _ if !is_renewal(command) => Fate::Answered,
            0 => Fate::Answered,
            1 => Fate::HeldBack,
            _ => Fate::Unanswered,
        }
    });
    tokio::time::sleep(3 * SHORT).await;
    assert_eq!(lease.loss(), None);
    assert!(lease.release().await.unwrap());
}

#[tokio::test]
async fn one_that_can_no_longer_renew_is_told_at_its_deadline_and_not_before() {
    for fate in [Fate::HeldBack, Fate::Hangs] {
        let (network, client, lock) = setting().await;
        let lease = lock.ttl(SHORT).acquire().await.unwrap();
        network.decide(move |command| if is_renewal(command) { fate } else { Fate::Answered });
        let deadline = lease.deadline();
        assert_eq!(lease.lost().await, Loss::Expired);
        assert!(client.now() >= deadline, "{fate:?}");
        assert_eq!(lease.deadline(), deadline);
    }
}

#[tokio::test]
async fn a_renewal_that_comes_late_does_not_bring_a_lost_lease_back() {
    let (network, _client, lock) = setting().await;
    let lease = lock.ttl(SHORT).acquire().await.unwrap();
    network.decide(|command| if is_renewal(command) { Fate::HeldBack } else { Fate::Answered });
    lease.lost().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(matches!(network.let_through().await, Reply::Hold(HoldReply::Lost(_))));
    assert_eq!((lease.loss(), holders(&network).await), (Some(Loss::Expired), 0));
}

#[tokio::test]
async fn a_release_whose_answer_was_lost_is_still_a_release() {
    let (network, _client, lock) = setting().await;
    let lease = lock.acquire().await.unwrap();
    network.once(Fate::Unanswered, is_release);
    assert!(lease.release().await.unwrap());
    assert_eq!(holders(&network).await, 0);
    // Also if another has it by the time that it is asked again.
    let lease = lock.acquire().await.unwrap();
    let next = network.bystander().await.lock("x").unwrap();
    let waiter = tokio::spawn(async move { next.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(100)).await;
    network.once(Fate::Unanswered, is_release);
    assert!(lease.release().await.unwrap());
    assert!(waiter.await.unwrap().is_valid());
}

#[tokio::test]
async fn a_broken_lease_whose_release_was_not_answered_was_not_held_to_its_end() {
    let (network, _client, lock) = setting().await;
    let lease = lock.acquire().await.unwrap();
    let fence = lease.fence().unwrap();
    network.bystander().await.break_lease(lock.name(), fence, true).await.unwrap();
    network.once(Fate::Unanswered, is_release);
    assert!(!lease.release().await.unwrap());
}

#[tokio::test]
async fn a_release_that_is_dropped_half_way_is_carried_out_in_the_background() {
    let (network, client, lock) = setting().await;
    let lease = lock.acquire().await.unwrap();
    network.once(Fate::Hangs, is_release);
    assert!(tokio::time::timeout(Duration::from_millis(50), lease.release()).await.is_err());
    client.close().await;
    assert_eq!(holders(&network).await, 0);
}

#[tokio::test]
async fn a_hand_over_whose_answer_was_lost_is_one_hand_over() {
    let (network, client, lock) = setting().await;
    let lease = lock.acquire().await.unwrap();
    let fence = lease.fence();
    network.once(Fate::Unanswered, |command| matches!(command, Command::HandOver(_)));
    let ticket = lease.hand_over().await.unwrap();
    assert!(ticket.fence() > fence);
    let adopted = client.adopt(&ticket).await.unwrap();
    assert_eq!(adopted.fence(), ticket.fence());
    assert!(adopted.release().await.unwrap());
    assert_eq!(holders(&network).await, 0);
}

#[tokio::test]
async fn a_store_that_hangs_hangs_nobody() {
    let (network, client, lock) = setting().await;
    let lease = lock.clone().ttl(2 * SHORT).acquire().await.unwrap();
    network.decide(|_| Fate::Hangs);
    let began = client.now();
    assert_eq!(lease.renew().await.unwrap_err().kind(), ErrorKind::Ambiguous);
    assert_eq!(client.check(&lease.share(Rights::CHECK)).await.unwrap_err().kind(), ErrorKind::Ambiguous);
    assert!(lock.acquire_timeout(Duration::from_millis(100)).await.is_err());
    assert!(client.now().since(began) < Duration::from_secs(15));
    assert!(!lease.is_valid(), "and it is told in time all the same");
}
