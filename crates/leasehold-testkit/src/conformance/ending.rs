//! A lease ends with what it was taken for.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use leasehold::{Error, ErrorKind, Loss};

use super::kit::{EPSILON, SHORT, assert_free, assert_kind, contended, freed, lock, ms, queued};
use crate::Fixture;

/// Says when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(super) async fn a_dropped_lease_is_released_and_close_waits_for_it(fixture: &Fixture) {
    let other = fixture.client().await;
    for n in 0..20 {
        let (client, lock) = lock(fixture, &format!("x{n}")).await;
        drop(lock.acquire().await.unwrap());
        client.close().await;
        assert_free(&other, lock.name()).await;
    }
    // Without closing it takes a moment, and no more than that.
    let (client, lock) = lock(fixture, "y").await;
    drop(lock.acquire().await.unwrap());
    freed(&other, lock.name()).await;
    // Also when the last that knew the client goes with it.
    let lease = lock.acquire().await.unwrap();
    drop((client, lock));
    let name = lease.name().clone();
    drop(lease);
    freed(&other, &name).await;
}

pub(super) async fn close_waits_for_abandoned_places(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let other = fixture.client().await;
    let holder = lock.acquire().await.unwrap();
    for _ in 0..10 {
        let waiter = tokio::spawn({
            let lock = other.lock("x").unwrap();
            async move { lock.acquire().await }
        });
        queued(&client, lock.name(), 1).await;
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
        other.clone().close().await;
        assert_eq!(super::kit::waiters(&client, lock.name()).await, 0);
    }
    assert!(holder.is_valid());
}

pub(super) async fn a_release_says_whether_it_was_still_held(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    assert!(lock.acquire().await.unwrap().release().await.unwrap());
    let lost = lock.clone().ttl(ms(100)).keep_alive(false).acquire().await.unwrap();
    lost.lost().await;
    assert!(!lost.release().await.unwrap(), "its time was up");
    let broken = lock.acquire().await.unwrap();
    client.break_lease(lock.name(), broken.fence().unwrap_or_default(), true).await.unwrap();
    assert!(!broken.release().await.unwrap());
}

pub(super) async fn run_releases_and_gives_back_the_value(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let value = lock
        .run(async |lease| {
            contended(lock.try_acquire().await);
            tokio::time::sleep(ms(20)).await;
            assert!(lease.is_valid());
            lease.name().as_str().len() + 41
        })
        .await;
    assert_eq!(value.unwrap(), 42);
    assert_free(&client, lock.name()).await;
}

pub(super) async fn run_releases_when_the_work_fails(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let value = lock.run(async |_| Err::<(), _>("no luck")).await;
    assert_eq!(value.unwrap(), Err("no luck"), "the work's own error is its value");
    assert_free(&client, lock.name()).await;
}

pub(super) async fn run_releases_when_the_work_panics(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let handle = tokio::runtime::Handle::current();
    let panics = tokio::task::spawn_blocking({
        let lock = lock.clone();
        move || handle.block_on(lock.run(async |_| -> () { panic!("on purpose") }))
    });
    assert!(panics.await.unwrap_err().is_panic());
    client.clone().close().await;
    assert_free(&client, lock.name()).await;
}

pub(super) async fn run_drops_the_work_when_the_lease_is_lost(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Flag(dropped.clone());
    let began = client.now();
    let result = lock
        .ttl(SHORT)
        .max_hold(SHORT)
        .run(async |_| {
            let _flag = flag;
            std::future::pending::<()>().await;
        })
        .await;
    assert!(matches!(result, Err(Error::Lost { .. })), "{result:?}");
    assert!(dropped.load(Ordering::SeqCst), "the work is gone before its error is there");
    assert!(client.now().since(began) < SHORT + EPSILON);
}

pub(super) async fn guard_ends_with_the_work_or_with_the_lease(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let lease = lock.ttl(SHORT).keep_alive(false).acquire().await.unwrap();
    assert_eq!(lease.guard(async { 7 }).await.unwrap(), 7);
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Flag(dropped.clone());
    let work = async {
        let _flag = flag;
        std::future::pending::<()>().await;
    };
    match lease.guard(work).await {
        Err(Error::Lost { loss, name }) => assert_eq!((loss, &name), (Loss::Expired, lease.name())),
        other => panic!("{other:?}"),
    }
    assert!(dropped.load(Ordering::SeqCst) && client.now() >= lease.deadline());
    let ran = AtomicBool::new(false);
    assert_kind(lease.guard(async { ran.store(true, Ordering::SeqCst) }).await, ErrorKind::Lost);
    assert!(!ran.load(Ordering::SeqCst), "nothing is begun under a lease that is lost");
}

pub(super) async fn a_release_that_is_dropped_halfway_is_made_all_the_same(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    for _ in 0..20 {
        let lease = lock.acquire().await.unwrap();
        {
            let mut release = std::pin::pin!(lease.release());
            // Begun, and given up at the first wait, if there was one.
            let _ = std::future::poll_fn(|context| std::task::Poll::Ready(release.as_mut().poll(context))).await;
        }
        client.clone().close().await;
        assert_free(&client, lock.name()).await;
    }
}
