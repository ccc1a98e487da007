//! A paused program, a clock that runs on, and a store that says otherwise.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::{
    Client, ErrorKind, Lease, Loss,
    clock::{Clock, Moment, SystemClock, Timer},
};

/// A clock that can be set forward, as when the host slept.
#[derive(Clone, Debug, Default)]
struct Jumping {
    ahead: Arc<AtomicU64>,
    /// The keeper hears nothing of it: its thread has not been woken yet.
    keeper_sleeps: bool,
}

impl Clock for Jumping {
    fn now(&self) -> Moment {
        SystemClock.now() + Duration::from_nanos(self.ahead.load(Ordering::SeqCst))
    }

    fn wall_ms(&self) -> u64 {
        SystemClock.wall_ms()
    }

    fn timer(&self) -> std::io::Result<Box<dyn Timer>> {
        Ok(Box::new(JumpingTimer { clock: self.clone(), tick: SystemClock.timer()? }))
    }
}

struct JumpingTimer {
    clock: Jumping,
    tick: Box<dyn Timer>,
}

impl Timer for JumpingTimer {
    fn until<'a>(&'a mut self, at: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            while self.clock.keeper_sleeps || self.clock.now() < at {
                self.tick.until(SystemClock.now() + Duration::from_millis(2)).await;
            }
        })
    }
}

const TTL: Duration = Duration::from_secs(30);

impl Jumping {
    fn jump(&self, span: Duration) {
        self.ahead.fetch_add(u64::try_from(span.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

/// A lease by a clock of its own, on a store that goes by the real one: for the store it is held all the time.
async fn lease_by(clock: Arc<Jumping>) -> (Client, Lease) {
    let store = leasehold::open("memory:").await.unwrap().store().clone();
    let client = Client::builder().store(store).clock(clock).open().await.unwrap();
    let lease = client.lock("x").unwrap().ttl(TTL).acquire().await.unwrap();
    (client, lease)
}

#[tokio::test]
async fn a_holder_that_wakes_up_too_late_knows_before_its_keeper_does() {
    let clock = Arc::new(Jumping { keeper_sleeps: true, ..Jumping::default() });
    let (_client, lease) = lease_by(clock.clone()).await;
    assert!(lease.is_valid());
    clock.jump(TTL);
    assert!(!lease.is_valid());
    assert_eq!((lease.loss(), lease.remaining()), (Some(Loss::Expired), Some(Duration::ZERO)));
}

#[tokio::test]
async fn guarded_work_does_not_go_on_after_a_pause_that_outlasted_the_lease() {
    let clock = Arc::new(Jumping { keeper_sleeps: true, ..Jumping::default() });
    let (_client, lease) = lease_by(clock.clone()).await;
    let went_on = AtomicBool::new(false);
    let work = async {
        clock.jump(TTL);
        tokio::task::yield_now().await;
        went_on.store(true, Ordering::SeqCst);
    };
    assert_eq!(lease.guard(work).await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(!went_on.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_deadline_that_passed_is_final_whatever_the_store_says() {
    let clock = Arc::new(Jumping { keeper_sleeps: true, ..Jumping::default() });
    let (client, lease) = lease_by(clock.clone()).await;
    clock.jump(TTL);
    assert_eq!(lease.renew().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(client.inspect(lease.name()).await.unwrap().holders.len(), 1, "the store would have renewed it");
    assert!(!lease.is_valid());
    assert!(!lease.release().await.unwrap(), "and what it protected may have been touched");
}

#[tokio::test]
async fn the_keeper_tells_of_a_loss_that_came_while_the_host_slept() {
    let clock = Arc::new(Jumping::default());
    let (_client, lease) = lease_by(clock.clone()).await;
    clock.jump(TTL);
    let told = tokio::time::timeout(Duration::from_secs(5), lease.lost()).await;
    assert_eq!(told, Ok(Loss::Expired));
}
