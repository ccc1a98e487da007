//! Waiting for a lease, and saying so.

use std::{
    io::{self, IsTerminal, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leasehold::{HolderView, Lease, Lock, Name, Waiting};
use rustix::process::Signal;
use tokio::{
    select,
    time::{Instant, MissedTickBehavior, interval_at},
};

use crate::{
    args::{ClaimArgs, Wait},
    child::Signals,
    failure::Failure,
    output::{self, visible},
};

/// How long to wait in silence.
const QUIET: Duration = Duration::from_secs(5);

/// What came of it.
#[derive(Debug)]
pub(crate) enum Waited {
    /// It is ours.
    Granted(Lease),
    /// We were told to stop, and have left the queue.
    Interrupted(Signal),
}

/// Takes the lease, as the arguments say how long to wait for it.
pub(crate) async fn acquire(
    lock: Lock,
    claim: &ClaimArgs,
    signals: &mut Signals,
    name: &Name,
) -> Result<Waited, Failure> {
    let known = Arc::new(Mutex::new(None));
    let lock = lock.on_wait({
        let known = Arc::clone(&known);
        move |waiting: &Waiting| *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiting.clone())
    });
    let granted = async {
        match claim.wait {
            _ if claim.no_wait => lock.try_acquire().await,
            Some(Wait::For(span)) => lock.acquire_timeout(span).await,
            None | Some(Wait::Forever) => lock.acquire().await,
        }
    };
    let mut granted = std::pin::pin!(granted);
    let mut report = Report::new(name);
    let mut tick = interval_at(Instant::now() + QUIET, Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        select! {
            biased;
            lease = &mut granted => {
                report.clear();
                return Ok(Waited::Granted(lease?));
            }
            // Dropping the attempt leaves the queue.
            signal = signals.next() => {
                report.clear();
                return Ok(Waited::Interrupted(signal));
            }
            _ = tick.tick() => {
                let known = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
                report.tell(known.as_ref());
            }
        }
    }
}

/// The line about the wait: live on a terminal; else once, and again when the store goes away or comes back.
struct Report<'a> {
    name: &'a Name,
    live: bool,
    started: Instant,
    told: Option<bool>,
}

impl<'a> Report<'a> {
    fn new(name: &'a Name) -> Self {
        Self { name, live: io::stderr().is_terminal(), started: Instant::now(), told: None }
    }

    fn tell(&mut self, known: Option<&Waiting>) {
        let away = known.is_some_and(|waiting| waiting.store_away.is_some());
        if self.live {
            let line = describe(self.name, known, Some(self.started.elapsed()));
            let _ = write!(io::stderr(), "\r\x1b[Kleasehold: {}", cut(&visible(&line)));
            self.told = Some(away);
        } else if self.told != Some(away) {
            output::say(describe(self.name, known, None));
            self.told = Some(away);
        }
    }

    /// Leaves the terminal as it was.
    fn clear(&mut self) {
        if self.live && self.told.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// A line that wraps cannot be overwritten.
fn cut(line: &str) -> String {
    let columns = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).map_or(80, |size| size.ws_col);
    line.chars().take(usize::from(columns).saturating_sub("leasehold: ".len() + 1)).collect()
}

/// For whom, since when, and at which place.
fn describe(name: &Name, known: Option<&Waiting>, waited: Option<Duration>) -> String {
    let so_far = waited.map(|waited| format!(", {} so far", output::span(Duration::from_secs(waited.as_secs()))));
    let line = format!("waiting for {name}{}", so_far.unwrap_or_default());
    let Some(known) = known else { return line };
    if let Some(message) = &known.store_away {
        return format!("{line}: the store is away ({message}); still trying");
    }
    let holder = known.holder.as_ref().map(|holder| format!(": {}", held_by(holder)));
    let place = known.position.map(|position| format!("; place {position} in the queue"));
    line + &holder.unwrap_or_default() + &place.unwrap_or_default()
}

fn held_by(holder: &HolderView) -> String {
    let reason = holder.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let since = holder.acquired_at().map(|since| format!(" since {}", humantime::format_rfc3339_seconds(since)));
    let left = match holder.expires_in {
        Some(left) => format!("{} left unless it is renewed", output::span(left)),
        None => "and never expires".to_owned(),
    };
    format!("held by {}{reason}{}, {left}", holder.owner, since.unwrap_or_default())
}
