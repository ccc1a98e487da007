//! A connection that is kept up, shared by all tasks of a program.
//!
//! * `link.rs`: one live connection. `call.rs`: a request and its reply. `state.rs`: who waits for what.
//! * `driver.rs`: its read side. `watch.rs`: its time-outs. `wire.rs`: its socket. `tls.rs`: whom it trusts.
//! * `supervise.rs`: makes a new one when the old one breaks.
//! * `dial.rs`: from a URL to a server that is ready for us, by way of Sentinel if need be.
//! * `facts.rs`: what that server says of itself. `exchange.rs`: a connection before it is shared.
//! * `fault.rs`: what can go wrong. `host.rs`: where all this runs.

mod call;
mod dial;
mod driver;
mod exchange;
mod facts;
mod fault;
mod host;
mod link;
mod state;
mod supervise;
#[cfg(test)]
mod tests;
mod tls;
mod watch;
mod wire;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dial::Dialer;
use fault::Fault;
pub(crate) use fault::accepted;
use host::Host;
pub(crate) use link::{Limits, Link};
use tokio::sync::{Notify, oneshot};

use super::{resp::Reply, url::Target};
use crate::{Error, clock::Clock, entropy::Entropy};

/// A message that was not asked for: its kind (`message`), then what belongs to it (channel, payload). Never empty.
pub(crate) type Push = Vec<Reply>;

/// Is given each message where it is read, in the order in which messages and replies came. It must not block.
pub(crate) type PushHandler = Arc<dyn Fn(Push) + Send + Sync>;

/// What a connection needs to know.
pub(crate) struct Config {
    pub(crate) target: Target,
    /// What CLIENT LIST shows. No spaces.
    pub(crate) name: String,
    /// Subscribed to whenever a connection is made, before anything else is asked there.
    pub(crate) channels: Vec<Box<[u8]>>,
    pub(crate) on_push: PushHandler,
    pub(crate) limits: Limits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

/// A connection to a server. When it breaks, a new one is made in the background; until then calls fail at once.
///
/// It lives on the tokio runtime where it was opened, which must have I/O enabled; where there is none, on a thread of its
/// own. Once that runtime is shut down it moves to that of the next call.
pub(crate) struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    dialer: Dialer,
    channels: Mutex<Vec<Box<[u8]>>>,
    on_push: PushHandler,
    limits: Limits,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    own_thread: bool,
    state: Mutex<State>,
    closed: Notify,
}

struct State {
    phase: Phase,
    epoch: u64,
    host: Option<Host>,
}

enum Phase {
    Up(Arc<Link>),
    /// Another attempt is under way, or will be.
    Down(Fault),
    /// Nobody is there to make another attempt.
    Orphaned(Fault),
    Closed,
}

impl Connection {
    /// Connects. What the server refuses is an error at once; so is a server that cannot be reached.
    pub(crate) async fn open(config: Config) -> Result<Self, Error> {
        Self::open_on(config, false).await
    }

    /// As [`open`](Self::open), on a thread of its own whatever runtime we are on: for callers that block theirs while
    /// they wait for an answer.
    pub(crate) async fn open_on_own_thread(config: Config) -> Result<Self, Error> {
        Self::open_on(config, true).await
    }

    async fn open_on(config: Config, own_thread: bool) -> Result<Self, Error> {
        let Config { target, name, channels, on_push, limits, clock, entropy } = config;
        let dialer = Dialer::new(target, &name, clock.clone(), limits.connect)?;
        let down = Fault::transient("not connected yet", "try again in a moment");
        let state = Mutex::new(State { phase: Phase::Down(down), epoch: 0, host: None });
        let (channels, closed) = (Mutex::new(channels), Notify::new());
        let shared = Arc::new(Shared { dialer, channels, on_push, limits, clock, entropy, own_thread, state, closed });
        let (first, opened) = oneshot::channel();
        // From here on dropping ends what was started, also if nobody waits for `open` any more.
        let connection = Self { shared };
        connection.shared.start(Some(first))?;
        match opened.await {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(fault)) => Err(fault.error()),
            Err(_) => Err(Error::refused(
                "the runtime that should look after the connection does not",
                "enable I/O on it (`enable_io` or `enable_all`), and do not shut it down",
            )),
        }
    }

    /// The live connection. While there is none: an error at once, which says why.
    pub(crate) fn link(&self) -> Result<Arc<Link>, Error> {
        let state = self.shared.state();
        match &state.phase {
            Phase::Up(link) => Ok(link.clone()),
            Phase::Down(fault) => Err(fault.error()),
            Phase::Closed => Err(ended().error()),
            Phase::Orphaned(fault) => {
                let error = fault.error();
                drop(state);
                self.shared.start(None)?;
                Err(error)
            }
        }
    }

    /// Subscribes to a channel, now and on every later connection.
    pub(crate) async fn subscribe(&self, channel: &[u8]) -> Result<(), Error> {
        // First remembered, then looked for a link: one that is made meanwhile subscribes too.
        self.shared.remember(channel);
        accepted(self.link()?.subscribe(channel).await?).map(drop)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let phase = std::mem::replace(&mut state.phase, Phase::Closed);
        let host = state.host.take();
        drop(state);
        if let Phase::Up(link) = phase {
            link.fail(link.state(), ended());
        }
        self.shared.closed.notify_one();
        drop(host);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn channels(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, channel: &[u8]) {
        let mut channels = self.channels();
        if !channels.iter().any(|known| **known == *channel) {
            channels.push(channel.into());
        }
    }

    /// Has a runtime look after the connection.
    fn start(self: &Arc<Self>, first: Option<supervise::First>) -> Result<(), Error> {
        let host = if self.own_thread { Host::own() } else { Host::here() }.map_err(|error| {
            Error::unavailable("no runtime for the connection", "the system is short of threads or descriptors")
                .because(error)
        })?;
        let mut state = self.state();
        match &state.phase {
            Phase::Orphaned(fault) => state.phase = Phase::Down(fault.clone()),
            Phase::Down(_) if first.is_some() => {}
            // Another call was faster.
            _ => return Ok(()),
        }
        host.spawn(supervise::supervise(supervise::Charge(self.clone()), first));
        state.host = Some(host);
        Ok(())
    }
}

fn ended() -> Fault {
    Fault::transient("the connection is closed", "open the store again")
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
