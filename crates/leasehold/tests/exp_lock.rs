//! The classic expiring lock: every operation, default and error.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{
    Client, Name, Ttl,
    blocking::{self, ExpLock as BlockingExpLock},
    compat::{ExpLock, LockError},
};

const KEY: &str = "lock_key";

async fn client() -> Client {
    leasehold::open("memory:").await.unwrap()
}

fn lock(client: &Client) -> ExpLock {
    ExpLock::new(client, KEY).unwrap()
}

/// How long the holder of the key still has.
async fn time_left(client: &Client) -> Option<Duration> {
    client.inspect(&KEY.parse::<Name>().unwrap()).await.unwrap().holders[0].expires_in
}

#[tokio::test]
async fn it_expires_after_60_seconds_by_default() {
    let client = client().await;
    let mut lock = lock(&client);
    lock.lock().await.unwrap();
    let left = time_left(&client).await.unwrap();
    assert!(left <= Duration::from_mins(1) && left > Duration::from_secs(55), "{left:?}");
}

#[tokio::test]
async fn it_does_not_retry_by_default() {
    let client = client().await;
    let (mut first, mut second) = (lock(&client), lock(&client));
    assert_eq!(first.lock().await.unwrap(), 1);
    match second.lock().await {
        Err(LockError::TooManyAttempts { attempts }) => assert_eq!(attempts, 1),
        other => panic!("{other:?}"),
    }
    assert!(!second.is_locked());
}

#[tokio::test]
async fn it_retries_every_10_milliseconds_by_default() {
    let client = client().await;
    let (mut first, second) = (lock(&client), lock(&client));
    first.lock().await.unwrap();
    let began = client.now();
    match second.retries(20).lock().await {
        Err(LockError::TooManyAttempts { attempts }) => assert_eq!(attempts, 21, "the first and 20 more"),
        other => panic!("{other:?}"),
    }
    let took = client.now().since(began);
    assert!(took >= Duration::from_millis(200), "{took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn its_interval_can_be_chosen() {
    let client = client().await;
    let (mut first, second) = (lock(&client), lock(&client));
    first.lock().await.unwrap();
    let began = client.now();
    assert!(second.retries(2).interval(Duration::from_millis(150)).lock().await.is_err());
    assert!(client.now().since(began) >= Duration::from_millis(300));
}

#[tokio::test]
async fn lock_says_how_many_attempts_it_took() {
    let client = client().await;
    let (mut first, second) = (lock(&client), lock(&client));
    first.lock().await.unwrap();
    let waiting = tokio::spawn(async move {
        let mut second = second.retries(1000);
        second.lock().await.unwrap()
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(first.unlock().await.unwrap());
    let attempts = waiting.await.unwrap();
    assert!(attempts > 1, "{attempts}");
}

#[tokio::test]
async fn try_lock_says_whether_it_was_free_and_does_not_wait() {
    let client = client().await;
    let (mut first, second) = (lock(&client), lock(&client));
    let mut second = second.retries(1_000_000).interval(Duration::from_hours(1));
    assert!(first.try_lock().await.unwrap());
    assert!(!second.try_lock().await.unwrap());
    assert!(!second.is_locked());
    first.unlock().await.unwrap();
    assert!(second.try_lock().await.unwrap());
}

#[tokio::test]
async fn to_lock_twice_without_unlocking_is_an_error() {
    let client = client().await;
    let mut lock = lock(&client);
    lock.lock().await.unwrap();
    assert!(matches!(lock.lock().await, Err(LockError::AlreadyAcquired)));
    assert!(matches!(lock.try_lock().await, Err(LockError::AlreadyAcquired)));
    assert!(matches!(lock.synchronize(async |_| ()).await, Err(LockError::AlreadyAcquired)));
    assert!(lock.is_locked() && lock.is_key_owned().await.unwrap(), "and it is still locked");
    lock.unlock().await.unwrap();
    lock.lock().await.unwrap();
}

#[tokio::test]
async fn after_it_expired_it_is_already_acquired_until_it_is_unlocked() {
    let client = client().await;
    let mut lock = lock(&client).expiry(Duration::from_millis(100));
    lock.lock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(lock.is_locked(), "its own state, without asking the store");
    assert!(matches!(lock.lock().await, Err(LockError::AlreadyAcquired)));
    assert!(!lock.unlock().await.unwrap(), "it had expired");
    assert!(!lock.is_locked());
    lock.lock().await.unwrap();
}

#[tokio::test]
async fn unlock_says_whether_it_was_still_locked() {
    let client = client().await;
    let mut lock = lock(&client);
    assert!(!lock.unlock().await.unwrap(), "never acquired");
    lock.lock().await.unwrap();
    assert!(lock.unlock().await.unwrap());
    assert!(!lock.unlock().await.unwrap(), "released before");
}

#[tokio::test]
async fn an_expired_lock_does_not_unlock_its_successor() {
    let client = client().await;
    let mut first = lock(&client).expiry(Duration::from_millis(100));
    first.lock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(150)).await;
    let mut second = lock(&client);
    second.lock().await.unwrap();
    assert!(!first.unlock().await.unwrap());
    assert!(second.is_key_owned().await.unwrap());
}

#[tokio::test]
async fn is_locked_key_locked_and_key_owned_tell_apart_who_has_it() {
    let client = client().await;
    let (mut first, second) = (lock(&client), lock(&client));
    let all = async |lock: &ExpLock| {
        (lock.is_locked(), lock.is_key_locked().await.unwrap(), lock.is_key_owned().await.unwrap())
    };
    assert_eq!(all(&first).await, (false, false, false));
    first.lock().await.unwrap();
    assert_eq!(all(&first).await, (true, true, true));
    assert_eq!(all(&second).await, (false, true, false));
    first.unlock().await.unwrap();
    assert_eq!(all(&first).await, (false, false, false));

    let mut short = lock(&client).expiry(Duration::from_millis(100));
    short.lock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(all(&short).await, (true, false, false), "expired");
    assert_eq!(first.lock().await.unwrap(), 1);
    assert_eq!(all(&short).await, (true, true, false), "another has it");
}

#[tokio::test]
async fn it_is_not_renewed() {
    let client = client().await;
    let mut lock = lock(&client).expiry(Duration::from_millis(300));
    lock.lock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(!lock.is_key_locked().await.unwrap());
}

#[tokio::test]
async fn it_never_expires_if_that_is_asked_for() {
    let client = client().await;
    let mut lock = lock(&client).expiry(Ttl::Never);
    lock.lock().await.unwrap();
    assert_eq!(time_left(&client).await, None);
    assert!(lock.is_key_owned().await.unwrap());
    assert!(lock.unlock().await.unwrap());
}

#[tokio::test]
async fn synchronize_hands_over_the_attempts_and_gives_back_the_value() {
    let client = client().await;
    let mut lock = lock(&client);
    let other = ExpLock::new(&client, KEY).unwrap();
    let value = lock
        .synchronize(async |attempts| {
            assert!(other.is_key_locked().await.unwrap());
            format!("after {attempts}")
        })
        .await;
    assert_eq!(value.unwrap(), "after 1");
    assert!(!lock.is_locked() && !lock.is_key_locked().await.unwrap());
}

#[tokio::test]
async fn synchronize_does_not_run_what_it_cannot_protect() {
    let client = client().await;
    let (mut first, second) = (lock(&client), lock(&client));
    first.lock().await.unwrap();
    let ran = AtomicBool::new(false);
    let result = second.retries(2).synchronize(async |_| ran.store(true, Ordering::SeqCst)).await;
    assert!(matches!(result, Err(LockError::TooManyAttempts { attempts: 3 })), "{result:?}");
    assert!(!ran.load(Ordering::SeqCst));
}

#[tokio::test]
async fn synchronize_releases_when_the_work_fails() {
    let client = client().await;
    let mut lock = lock(&client);
    let value = lock.synchronize(async |_| Err::<(), _>("no luck")).await.unwrap();
    assert_eq!(value, Err("no luck"));
    assert!(!lock.is_locked() && !lock.is_key_locked().await.unwrap());
}

#[test]
fn synchronize_releases_when_the_work_panics() {
    let client = blocking::open("memory:").unwrap();
    let mut lock = BlockingExpLock::new(&client, KEY).unwrap();
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.synchronize(|_| -> () { panic!("on purpose") })));
    assert!(panicked.is_err());
    let state = BlockingExpLock::new(&client, KEY).unwrap();
    client.close();
    assert!(!lock.is_locked() && !state.is_key_locked().unwrap());
    assert!(lock.try_lock().unwrap(), "it can be used again");
}

#[tokio::test]
async fn synchronize_releases_when_it_is_dropped() {
    let client = client().await;
    let mut lock = lock(&client);
    let began = Arc::new(AtomicBool::new(false));
    let work = lock.synchronize(async |_| {
        began.store(true, Ordering::SeqCst);
        std::future::pending::<()>().await;
    });
    assert!(tokio::time::timeout(Duration::from_millis(50), work).await.is_err());
    assert!(began.load(Ordering::SeqCst));
    client.clone().close().await;
    assert!(!lock.is_locked() && !lock.is_key_locked().await.unwrap());
}

#[tokio::test]
async fn a_dropped_lock_is_given_back() {
    let client = client().await;
    let mut first = lock(&client);
    first.lock().await.unwrap();
    drop(first);
    client.clone().close().await;
    assert!(!lock(&client).is_key_locked().await.unwrap());
}

#[tokio::test]
async fn it_excludes_and_is_excluded_by_a_lock_that_renews() {
    let client = client().await;
    let lease = client.lock(KEY).unwrap().acquire().await.unwrap();
    let mut classic = lock(&client);
    assert!(!classic.try_lock().await.unwrap());
    lease.release().await.unwrap();
    classic.lock().await.unwrap();
    assert!(client.lock(KEY).unwrap().try_acquire().await.is_err());
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let client = client().await;
    assert!(ExpLock::new(&client, "").is_err());
    assert!(matches!(lock(&client).expiry(Duration::ZERO).lock().await, Err(LockError::Other(_))));
    assert!(matches!(lock(&client).expiry(Duration::ZERO).try_lock().await, Err(LockError::Other(_))));
}

#[test]
fn without_async_it_is_the_same() {
    let client = blocking::open("memory:").unwrap();
    let mut first = BlockingExpLock::new(&client, KEY).unwrap().retries(1).interval(Duration::from_millis(1));
    let mut second = BlockingExpLock::new(&client, KEY).unwrap().retries(1).expiry(Duration::from_secs(5));
    assert_eq!(first.lock().unwrap(), 1);
    assert!(matches!(first.lock(), Err(LockError::AlreadyAcquired)));
    assert!(matches!(second.lock(), Err(LockError::TooManyAttempts { attempts: 2 })));
    assert!(!second.try_lock().unwrap());
    assert!(first.is_locked() && first.is_key_owned().unwrap() && second.is_key_locked().unwrap());
    assert!(!second.is_key_owned().unwrap() && !second.is_locked());
    assert!(first.unlock().unwrap());
    assert_eq!(second.synchronize(|attempts| attempts + 1).unwrap(), 2);
    assert!(!second.unlock().unwrap());
}
