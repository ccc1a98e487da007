//! Nobody holds while another does.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::Loss;

use super::kit::{EPSILON, SHORT, lock, ms, queued};
use crate::{
    Fixture,
    history::{Recorder, What, assert_sound},
};

pub(super) async fn no_two_hold_at_once(fixture: &Fixture) {
    const EACH: usize = 15;
    let history = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for party in 0..6 {
        let recorder = Recorder::new(party.to_string(), {
            let history = history.clone();
            move |event| history.lock().unwrap().push(event)
        });
        let client = fixture.client().await;
        tasks.push(tokio::spawn(async move {
            let lock = client.lock("x").unwrap().ttl(SHORT / 2).keep_alive(party != 0);
            for round in 0..EACH {
                recorder.says(What::Asking);
                let lease = lock.acquire().await.unwrap();
                if !recorder.acquired(&lease) {
                    continue;
                }
                // One of them does not always give it back: that, too, must end before the next begins.
                if party == 0 && round % 5 == 0 {
                    lease.lost().await;
                } else {
                    tokio::time::sleep(Duration::from_millis(round as u64 % 4)).await;
                }
                if recorder.ends(&lease) {
                    let held = lease.release().await.unwrap();
                    recorder.says(What::Released { held });
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let holds = assert_sound(&history.lock().unwrap());
    assert!(holds.len() > 5 * EACH, "{} holds prove little", holds.len());
}

pub(super) async fn a_lease_that_is_not_renewed_lets_another_in_after_its_deadline_and_within_its_ttl(
    fixture: &Fixture,
) {
    let (client, lock) = lock(fixture, "x").await;
    let other = fixture.client().await;
    let asked = client.now();
    let first = lock.ttl(SHORT).keep_alive(false).acquire().await.unwrap();
    assert!(first.deadline() <= asked + SHORT + EPSILON);
    let margin = SHORT / 100 + ms(2);
    assert!(first.remaining().unwrap() <= SHORT - margin, "1 % and 2 ms of it are not relied on");

    let second = other.lock("x").unwrap().acquire().await.unwrap();
    let acquired = other.now();
    assert!(acquired >= first.deadline(), "{:?} too early", first.deadline().since(acquired));
    assert!(!first.is_valid());
    let took = acquired.since(asked);
    assert!(took < SHORT + EPSILON, "the next had it after {took:?}");
    assert!(second.is_valid() && first.loss() == Some(Loss::Expired));
    assert!(!first.release().await.unwrap(), "it was lost");
    assert!(second.is_valid() && second.release().await.unwrap(), "and that release did not touch the next");
}

pub(super) async fn the_holder_is_told_before_its_successor_has_it(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let other = fixture.client().await;
    // The margin is 1 % of the ttl: long enough here for the word of the loss to be heard on a busy machine.
    let first = lock.clone().ttl(15 * SHORT).keep_alive(false).acquire().await.unwrap();
    let successor = tokio::spawn({
        let other = other.clone();
        async move { (other.lock("x").unwrap().acquire().await.unwrap(), other.now()) }
    });
    queued(&client, first.name(), 1).await;
    assert_eq!(first.lost().await, Loss::Expired);
    let told = client.now();
    assert!(told >= first.deadline(), "not before it is so");
    let (second, acquired) = successor.await.unwrap();
    assert!(first.deadline() <= acquired);
    assert!(told <= acquired, "told {:?} after the successor had it", told.since(acquired));
    assert!(second.release().await.unwrap());
}
