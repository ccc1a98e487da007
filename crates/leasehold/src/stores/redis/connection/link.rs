//! One live connection, shared by all tasks.
//!
//! Whoever has a request appends it to the buffer that goes out next and, if nobody is writing, writes the buffer. A
//! request is followed by a slot in the order in which replies are owed; the [driver](super::driver) puts replies there
//! and wakes whoever waits. A slot that nobody waits for any more stays in its place until its reply has come, so that no
//! reply is taken for another's.
//!
//! When several tasks were woken at once they are likely to ask again at once. Then nobody writes until all of them have
//! had their turn, and what they ask goes out together: one system call for all, here and on the server.

use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    call::Call,
    facts::Facts,
    fault::{Fault, accepted},
    state::{Pen, State},
    wire::Writer,
};
use crate::{
    Error,
    clock::{Clock, Moment},
    stores::redis::resp::{Arg, Eval, Reply, Request, Script},
};

/// More unsent bytes than this, and the server does not keep up.
const MOST_UNSENT: usize = 16 << 20;
/// How often one task writes what others append meanwhile, before it lets the driver do that.
const MOST_ROUNDS: u32 = 8;

/// A live connection.
pub(crate) struct Link {
    pub(super) writer: Writer,
    clock: Arc<dyn Clock>,
    limits: Limits,
    facts: Facts,
    epoch: u64,
    state: Mutex<State>,
    /// A call is due earlier than the watch believes.
    pub(super) rouse_watch: Notify,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Until a connection stands.
    pub(crate) connect: Duration,
    /// Until a call is answered, unless it says otherwise.
    pub(crate) answer: Duration,
    /// A server that owes an answer for so long is taken for dead, and the connection is given up.
    pub(crate) silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(2), answer: Duration::from_secs(2), silence: Duration::from_secs(6) }
    }
}

impl Link {
    pub(super) fn new(writer: Writer, facts: Facts, epoch: u64, clock: Arc<dyn Clock>, limits: Limits) -> Arc<Self> {
        let (state, rouse_watch) = (Mutex::new(State::new()), Notify::new());
        Arc::new(Self { writer, clock, limits, facts, epoch, state, rouse_watch })
    }

    /// What the server said of itself when this connection was made. Its run id is good for as long as the link is.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Counts the connections: another number means that the server may have been restarted, or be another.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Sends a request at once, also if the call is never polled.
    pub(crate) fn call(self: &Arc<Self>, request: &impl Request) -> Call {
        self.send(request, self.limits.answer, false)
    }

    /// As [`call`](Self::call), with a time-out of its own.
    pub(crate) fn call_within(self: &Arc<Self>, patience: Duration, request: &impl Request) -> Call {
        self.send(request, patience, false)
    }

    /// Runs a script, by its hash if the server knows it.
    pub(crate) async fn eval(
        self: &Arc<Self>,
        script: &Script,
        keys: &[Arg<'_>],
        args: &[Arg<'_>],
    ) -> Result<Reply, Error> {
        let mut eval = Eval { script, keys, args, whole: false };
        let mut reply = self.call(&eval).await?;
        if is_unknown_script(&reply) {
            eval.whole = true;
            reply = self.call(&eval).await?;
        }
        accepted(reply)
    }

    /// Runs scripts, all sent together.
    pub(crate) async fn eval_all(self: &Arc<Self>, evals: &[Eval<'_>]) -> Vec<Result<Reply, Error>> {
        let mut replies = self.call_all(evals).await;
        let unknown = |reply: &Result<Reply, Error>| matches!(reply, Ok(reply) if is_unknown_script(reply));
        let again: Vec<usize> = (0..evals.len()).filter(|index| unknown(&replies[*index])).collect();
        if !again.is_empty() {
            let whole: Vec<Eval<'_>> = again.iter().map(|index| Eval { whole: true, ..evals[*index] }).collect();
            for (index, reply) in again.into_iter().zip(self.call_all(&whole).await) {
                replies[index] = reply;
            }
        }
        replies.into_iter().map(|reply| reply.and_then(accepted)).collect()
    }

    /// Sends requests together, and waits for all replies.
    pub(crate) async fn call_all(self: &Arc<Self>, requests: &[impl Request]) -> Vec<Result<Reply, Error>> {
        let calls: Vec<Call> = {
            let _cork = self.cork();
            requests.iter().map(|request| self.call(request)).collect()
        };
        let mut replies = Vec::with_capacity(calls.len());
        for call in calls {
            replies.push(call.await);
        }
        replies
    }

    /// Keeps requests back until it is dropped, so that they go out together.
    pub(crate) fn cork(&self) -> Cork<'_> {
        self.state().corks += 1;
        Cork(self)
    }

    /// Subscribes to a channel, on this link alone.
    pub(super) fn subscribe(self: &Arc<Self>, channel: &[u8]) -> Call {
        self.send(&["SUBSCRIBE".into(), Arg::Bytes(channel)], self.limits.answer, true)
    }

    fn send(self: &Arc<Self>, request: &impl Request, patience: Duration, subscribes: bool) -> Call {
        let sent = self.clock.now();
        let due = sent + patience;
        let mut state = self.state();
        if let Some(fault) = &state.broken {
            return Call::failed(fault.error());
        }
        if state.unsent() > MOST_UNSENT {
            return Call::failed(Error::unavailable(
                "the server does not keep up with what it is asked",
                "is it, or the network, overloaded or gone?",
            ));
        }
        let slot = state.append(request, sent, due, subscribes);
        let rouse = state.is_watched_too_late(due);
        if state.may_write_now() {
            self.write(state);
        } else {
            drop(state);
        }
        if rouse {
            self.rouse_watch.notify_one();
        }
        Call::sent(self.clone(), slot)
    }

    /// No change is left half done, so a panic elsewhere does not spoil it.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what has gathered, for as long as the socket takes it. To be called with the pen free.
    pub(super) fn write<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        for _ in 0..MOST_ROUNDS {
            let buffer = state.take_out();
            drop(state);
            let (length, done) = self.write_buffer(&buffer);
            state = self.state();
            match done {
                Ok(()) => state.put_back(buffer, length, Pen::Free),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.put_back(buffer, length, Pen::Blocked);
                    return state.wake_driver();
                }
                Err(error) => {
                    state.put_back(buffer, length, Pen::Free);
                    return self.fail(state, Fault::io(&error));
                }
            }
            // Others may have appended meanwhile, in the belief that we go on.
            if state.broken.is_some() || !state.needs_writer() {
                return;
            }
        }
        state.wake_driver();
    }

    /// How much of the buffer was taken.
    fn write_buffer(&self, buffer: &[u8]) -> (usize, io::Result<()>) {
        let mut length = 0;
        while length < buffer.len() {
            match self.writer.write(&buffer[length..]) {
                Ok(0) => return (length, Err(io::ErrorKind::WriteZero.into())),
                Ok(some) => length += some,
                Err(error) => return (length, Err(error)),
            }
        }
        (length, self.writer.flush())
    }

    /// The end of this connection: everyone who waits is told.
    pub(super) fn fail(&self, mut state: MutexGuard<'_, State>, fault: Fault) {
        if state.broken.is_some() {
            return;
        }
        let wakers = state.end(fault);
        drop(state);
        self.writer.shut_down();
        self.rouse_watch.notify_one();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Tells those whose time is up, and says when to look again. `None`: never, the connection is broken.
    pub(super) fn sweep(&self) -> Option<Moment> {
        let now = self.clock.now();
        let mut state = self.state();
        if state.broken.is_some() {
            return None;
        }
        if state.oldest().is_some_and(|sent| sent + self.limits.silence <= now) {
            let silence = humantime::format_duration(self.limits.silence);
            let message = format!("the server gave no answer for {silence}");
            self.fail(state, Fault::transient(message, "is it, or the network, overloaded or gone?"));
            return None;
        }
        let mut wakers = Vec::new();
        let next = state.sweep(now, &self.limits, &mut wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        Some(next)
    }
}

fn is_unknown_script(reply: &Reply) -> bool {
    reply.error_code() == Some("NOSCRIPT")
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// See [`Link::cork`].
#[derive(Debug)]
#[must_use = "requests are kept back for as long as it lives"]
pub(crate) struct Cork<'a>(&'a Link);

impl Drop for Cork<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.corks -= 1;
        if state.needs_writer() {
            self.0.write(state);
        }
    }
}
