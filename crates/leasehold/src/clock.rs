//! Time, injected.
//!
//! Deadlines are kept on a clock that runs on while the host sleeps. `std::time::Instant` and the timers of async
//! runtimes stand still then, so a laptop that was closed for an hour would believe in a lease that ran out long ago.

#![allow(clippy::disallowed_methods, reason = "the one place that reads the real clocks")]

use std::{
    fmt,
    future::Future,
    ops::{Add, Sub},
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A point on a [`Clock`]: nanoseconds since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Not later than any other.
    pub const EARLIEST: Self = Self(0);
    /// Later than every other: the deadline of what never ends.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment so many nanoseconds after the clock began.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock began.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this, zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        if self == Self::NEVER {
            return self;
        }
        Self(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The clocks that the library goes by.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Now, on a clock that never goes back and does not stop while the host sleeps.
    fn now(&self) -> Moment;

    /// The time of day, in milliseconds since 1970: shown to people, and the measure of a ticket's `not_after`.
    fn wall_ms(&self) -> u64;

    /// A timer on the clock of [`now`](Self::now). Made and awaited on the keeper's runtime.
    fn timer(&self) -> std::io::Result<Box<dyn Timer>>;
}

/// Waits for a moment of its [`Clock`].
pub trait Timer: Send {
    /// Ends at `at`, or as soon after as the system manages. May be dropped and called again at any time.
    fn until<'a>(&'a mut self, at: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

/// The clock of this host: `CLOCK_BOOTTIME` for deadlines.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// This clock, to share.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let now = rustix::time::clock_gettime(BOOT_CLOCK);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
        Moment(seconds * 1_000_000_000 + nanos)
    }

    fn wall_ms(&self) -> u64 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
    }

    fn timer(&self) -> std::io::Result<Box<dyn Timer>> {
        timer::BootTimer::new().map(|timer| Box::new(timer) as Box<dyn Timer>)
    }
}

#[cfg(target_os = "linux")]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;

#[cfg(target_os = "linux")]
mod timer {
    use std::{future::Future, io, os::fd::OwnedFd, pin::Pin};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::{Interest, unix::AsyncFd};

    use super::{Moment, Timer};

    /// A timer descriptor on the boot-time clock: one that passes during suspend fires on resume.
    pub(super) struct BootTimer(AsyncFd<OwnedFd>);

    impl BootTimer {
        pub(super) fn new() -> io::Result<Self> {
            let fd = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            // SAFETY: an `OwnedFd` keeps its one descriptor open until it is dropped, as the registration asks.
            #[expect(unsafe_code, reason = "tokio's safe constructor is deprecated; an `OwnedFd` meets its condition")]
            let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
            Ok(Self(fd))
        }
    }

    impl Timer for BootTimer {
        fn until<'a>(&'a mut self, at: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
            Box::pin(async move {
                if at == Moment::NEVER {
                    return std::future::pending().await;
                }
                // Zero would disarm the timer; one nanosecond after boot is long past.
                let nanos = at.nanos().max(1);
                let value = Timespec {
                    tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
                    tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or_default(),
                };
                let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
                // Arming clears what an earlier moment left behind.
                timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &spec)
                    .expect("a timer that exists takes a valid time");
                loop {
                    let mut ready = self.0.readable().await.expect("the reactor outlives the keeper's timer");
                    let mut count = [0; 8];
                    if ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut count)?)).is_ok() {
                        return;
                    }
                }
            })
        }
    }
}
