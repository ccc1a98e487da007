//! Anyone can see who holds what, and who waits; nobody sees a secret.

use std::time::{Duration, SystemTime};

use leasehold::{Name, Phase, Rights};

use super::kit::{LONG, Steps, assert_free, claim, id, lock, ms, patient, queued, seen};
use crate::Fixture;

pub(super) async fn a_name_is_seen_with_its_holder_and_its_queue(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let other = fixture.client().await;
    assert_free(&other, lock.name()).await;
    let before = SystemTime::now() - ms(2);
    let lease = lock.clone().owner("alice").reason("why not").acquire().await.unwrap();
    let mut tasks = Vec::new();
    for (n, who) in ["bob", "carol", "dave"].into_iter().enumerate() {
        let lock = lock.clone().owner(who).reason(format!("{who}'s"));
        tasks.push(tokio::spawn(async move { lock.acquire().await }));
        queued(&client, lease.name(), n + 1).await;
    }
    tokio::time::sleep(ms(50)).await;
    let view = seen(&other, lock.name()).await;
    assert_eq!(&view.name, lock.name());
    let [holder] = &view.holders[..] else { panic!("{view:?}") };
    assert_eq!((&*holder.owner, holder.reason.as_deref()), ("alice", Some("why not")));
    assert_eq!((holder.fence, holder.phase), (lease.fence(), Phase::Held));
    assert!(holder.expires_in.unwrap() <= LONG);
    assert!((before..=SystemTime::now()).contains(&holder.acquired_at().unwrap()));
    let queue = view.queue.unwrap();
    let places: Vec<(u32, &str)> = queue.iter().map(|waiter| (waiter.position, &*waiter.owner)).collect();
    assert_eq!(places, [(1, "bob"), (2, "carol"), (3, "dave")]);
    assert_eq!(queue[1].reason.as_deref(), Some("carol's"));
    assert!(queue.is_sorted_by(|a, b| a.waiting >= b.waiting), "{queue:?}");
    assert!(queue.iter().all(|waiter| waiter.waiting >= ms(50) && waiter.waiting < LONG && !waiter.silent));
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

pub(super) async fn a_list_has_what_is_held_or_waited_for_by_prefix(fixture: &Fixture) {
    let client = fixture.client().await;
    let names = ["a", "a/1", "a/2", "a%", "a_", "aX1", "A/1", "b", "ä/1", "*", "[a]"];
    let mut leases = Vec::new();
    for name in names {
        leases.push(client.lock(name).unwrap().acquire().await.unwrap());
    }
    client.lock("a/free").unwrap().acquire().await.unwrap().release().await.unwrap();
    let gone = client.lock("a/gone").unwrap().ttl(ms(50)).keep_alive(false).acquire().await.unwrap();
    gone.lost().await;
    tokio::time::sleep(ms(20)).await;
    let other = fixture.client().await;
    let mut prefixes: Vec<&str> = names.to_vec();
    prefixes.extend(["", "a/", "ä", "none", "a/1/"]);
    for prefix in prefixes {
        let listed = other.list(prefix).await.unwrap();
        let mut found: Vec<&str> = listed.iter().map(|view| view.name.as_str()).collect();
        found.sort_unstable();
        let mut expected: Vec<&str> = names.into_iter().filter(|name| name.starts_with(prefix)).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "of {prefix:?}");
        assert!(listed.iter().all(|view| view.holders.len() == 1));
    }
}

pub(super) async fn nothing_that_is_seen_shows_a_secret(fixture: &Fixture) {
    let steps = Steps::of(fixture, "x").await;
    let grant = steps.granted(claim(1)).await;
    steps.placed(patient(2, None)).await;
    let lease = steps.client.lock("y").unwrap().acquire().await.unwrap();
    let ticket = lease.share(Rights::ALL);
    let shown = [
        format!("{:?}", seen(&steps.client, &steps.name).await),
        format!("{:?}", steps.client.list("").await.unwrap()),
        format!("{grant:?} {:?}", claim(1)),
        format!("{lease:?} {ticket:?} {:?} {:?}", steps.client, steps.client.lock("x").unwrap()),
    ];
    for text in &shown {
        for number in 1..=2 {
            let secret = id(number).to_secret_hex();
            assert!(!text.contains(secret.trim_start_matches('0')), "{text}");
        }
        assert!(!text.contains(&ticket.encode()));
    }
    let name: Name = "y".parse().unwrap();
    assert_eq!(seen(&steps.client, &name).await.queue.unwrap().len(), 0);
    assert!(Duration::ZERO < lease.remaining().unwrap());
}
