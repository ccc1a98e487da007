//! The face without `async` does the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use leasehold::{
    BreakReply, ErrorKind, Loss, Retry, Rights, Ttl,
    blocking::{self, Client, Lease, Lock},
};

const TTL: Duration = Duration::from_secs(30);

fn lock(name: &str) -> (Client, Lock) {
    let client = blocking::open("memory:").unwrap();
    let lock = client.lock(name).unwrap().ttl(TTL);
    (client, lock)
}

fn kind<T: std::fmt::Debug>(result: Result<T, leasehold::Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn threads_wait_in_line_and_are_served_in_order() {
    let (client, lock) = lock("x");
    let first = lock.acquire().unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut threads = Vec::new();
    for n in 1..=4 {
        let (waiting, served) = (lock.clone(), served.clone());
        threads.push(thread::spawn(move || {
            let lease = waiting.acquire().unwrap();
            served.lock().unwrap().push(n);
            assert!(lease.release().unwrap());
        }));
        while client.inspect(lock.name()).unwrap().queue.unwrap().len() < n {
            client.sleep_until(client.now() + Duration::from_millis(5));
        }
    }
    first.release().unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*served.lock().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn a_lease_can_be_held_looked_at_and_given_back() {
    let (client, lock) = lock("x");
    let lease = lock.clone().owner("alice").reason("why not").acquire().unwrap();
    assert!(lease.is_valid() && lease.fence().is_some() && lease.attempts() == 1 && lease.waited() < TTL);
    assert_eq!((lease.ttl(), lease.loss(), lease.name()), (Ttl::For(TTL), None, lock.name()));
    assert!(lease.remaining().unwrap() < TTL && lease.deadline() > client.now());
    lease.renew().unwrap();
    lease.while_progress(TTL).tick();
    assert_eq!(client.list("").unwrap()[0].holders[0].owner.as_ref(), "alice");
    assert_eq!(kind(lock.try_acquire()), ErrorKind::Contended);
    assert_eq!(kind(lock.acquire_timeout(Duration::from_millis(50))), ErrorKind::Contended);
    let retry = Retry { attempts: 2, interval: Duration::from_millis(1), jitter: 0.0 };
    assert_eq!(kind(lock.clone().retry(retry).acquire()), ErrorKind::Contended);
    assert!(lease.release().unwrap());
    drop(lock.acquire().unwrap());
    client.clone().close();
    assert!(client.inspect(lock.name()).unwrap().holders.is_empty());
}

#[test]
fn tickets_are_shared_handed_over_and_detached() {
    let (client, lock) = lock("x");
    let owner = lock.acquire().unwrap();
    let ticket = owner.share(Rights::RENEW);
    let bearer: Lease = client.accept(&ticket).unwrap();
    assert_eq!(bearer.fence(), owner.fence());
    client.renew(&ticket).unwrap();
    client.check(&ticket).unwrap();
    assert_eq!(kind(client.release(&ticket)), ErrorKind::Invalid);
    drop(bearer);
    let handed = owner.hand_over().unwrap();
    assert_eq!(kind(client.check(&ticket)), ErrorKind::Lost);
    let detached = client.adopt(&handed).unwrap().detach();
    assert!(client.release(&detached).unwrap());
}

#[test]
fn a_holder_learns_that_it_was_broken() {
    let (client, lock) = lock("x");
    let lease = lock.acquire().unwrap();
    let told = thread::scope(|scope| {
        let waits = scope.spawn(|| lease.lost());
        let reply = client.break_lease(lock.name(), lease.fence().unwrap(), true).unwrap();
        assert!(matches!(reply, BreakReply::Broken { .. }));
        waits.join().unwrap()
    });
    assert_eq!(told, Loss::Broken);
    assert!(client.promises().fence && !lease.is_valid());
}

#[test]
fn run_gives_back_the_value_and_the_name_and_says_when_the_lease_was_lost() {
    let (client, lock) = lock("x");
    assert_eq!(lock.run(|lease| lease.fence().map(|_| 7)).unwrap(), Some(7));
    assert!(client.inspect(lock.name()).unwrap().holders.is_empty());
    let short = lock.clone().ttl(Duration::from_millis(50)).keep_alive(false);
    assert_eq!(kind(short.run(Lease::lost)), ErrorKind::Lost);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.run(|_| panic!("on purpose"))));
    assert!(panicked.is_err());
    client.clone().close();
    assert!(client.inspect(lock.name()).unwrap().holders.is_empty());
}

#[test]
fn what_is_shared_between_threads_may_be() {
    fn shareable<T: Send + Sync>() {}
    shareable::<(leasehold::Client, leasehold::Lock, leasehold::Lease, leasehold::Progress)>();
    shareable::<(Client, Lock, Lease)>();
    shareable::<(leasehold::Ticket, leasehold::Error, leasehold::LeaseView, leasehold::compat::ExpLock)>();
    shareable::<Arc<dyn leasehold::store::Store>>();
}
