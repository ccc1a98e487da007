//! CMD while the lease is held.

use std::time::Duration;

use leasehold::{
    Lease, Loss,
    clock::{Clock, Moment, SystemClock, Timer},
};
use rustix::process::Signal;
use tokio::select;

use super::{Change, Child, Signals, Terminal, ending, sys};
use crate::{args::OnLost, exit::Exit, output};

/// What CMD depends on.
pub(crate) struct Watch<'a> {
    /// Our own, on this thread: the keeper may hang in a system call when a disk does.
    pub(crate) timer: Box<dyn Timer>,
    pub(crate) lease: &'a Lease,
    pub(crate) on_lost: OnLost,
    /// What is kept of the validity to end CMD in.
    pub(crate) grace: Duration,
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// CMD ended by itself, and may have outlived its lease.
    Ended { exit: Exit, outlived: Option<Loss> },
    /// There was not enough left of the lease to start CMD.
    NotStarted { loss: Option<Loss> },
    /// The lease was lost, and CMD was ended.
    Stopped {
        /// `None`: it could not be renewed, and was about to run out.
        loss: Option<Loss>,
        /// Whether nothing of CMD's group is left.
        gone: bool,
    },
}

/// Now, on the clock of every deadline.
pub(crate) fn now() -> Moment {
    SystemClock.now()
}

impl Watch<'_> {
    /// Until when CMD may run at most. It moves with each renewal.
    pub(super) fn deadline(&self) -> Moment {
        self.lease.deadline()
    }

    /// How it was lost, or is about to be; `None`: it only could not be renewed.
    pub(crate) fn loss(&self) -> Option<Loss> {
        let ahead = Some(self.lease.lapse()).filter(|lapse| *lapse != Loss::Expired);
        self.lease.loss().or(ahead)
    }

    /// When to begin to end CMD, or to say that its lease is lost.
    pub(crate) fn due(&self) -> Moment {
        match self.on_lost {
            OnLost::Stop => self.deadline() - self.grace,
            OnLost::Warn => self.deadline(),
        }
    }

    fn is_over(&self) -> bool {
        self.on_lost == OnLost::Stop && now() >= self.deadline()
    }
}

/// Sees CMD through: passes signals on, shares the terminal, and ends it when the lease is lost.
pub(crate) async fn supervise(
    child: &mut Child,
    terminal: &mut Terminal,
    signals: &mut Signals,
    watch: &mut Watch<'_>,
) -> Outcome {
    let mut outlived = None;
    loop {
        let due = watch.due();
        // In this order: who wakes after a pause must look at the deadline before anything else.
        let loss = select! {
            biased;
            () = watch.timer.until(due), if outlived.is_none() => {
                // A renewal has moved it.
                if now() < watch.due() {
                    continue;
                }
                watch.loss()
            }
            loss = watch.lease.lost(), if outlived.is_none() => Some(loss),
            signal = signals.next() => {
                child.signal(signal);
                continue;
            }
            change = child.change() => match change {
                // It ended while we were paused, and perhaps too late.
                Change::Ended(_) if watch.is_over() => watch.loss(),
                Change::Ended(exit) => return Outcome::Ended { exit, outlived },
                Change::Stopped(signal) => {
                    pause(child, terminal, signal, || watch.is_over());
                    continue;
                }
            },
        };
        if watch.on_lost == OnLost::Warn {
            let loss = loss.unwrap_or(Loss::Expired);
            output::say(format_args!(
                "the lease on {} is lost: {loss}; the command goes on without it",
                watch.lease.name()
            ));
            outlived = Some(loss);
            continue;
        }
        let gone = ending::end(child, signals, watch).await;
        return Outcome::Stopped { loss, gone };
    }
}

/// CMD was stopped.
fn pause(child: &Child, terminal: &mut Terminal, signal: Signal, is_over: impl Fn() -> bool) {
    let wants_terminal = signal == Signal::TTIN || signal == Signal::TTOU;
    if wants_terminal && terminal.is_ours() {
        terminal.give(child.group);
        child.signal(Signal::CONT);
        return;
    }
    // SIGSTOP is somebody's word to CMD alone, and so is the SIGCONT after it: if we stopped too, nobody would watch
    // over the lease then.
    if !wants_terminal && signal != Signal::TSTP {
        return;
    }
    terminal.take_back();
    let before = std::time::Instant::now();
    sys::stop_our_group(signal);
    if wants_terminal && before.elapsed() < Duration::from_millis(2) {
        output::say("the command wants the terminal, which it cannot have in the background: it is stopped");
        return;
    }
    // Continued. Past the deadline another may hold the lease: CMD must not make a single step more.
    if is_over() {
        child.signal(Signal::KILL);
        return;
    }
    terminal.give(child.group);
    child.signal(Signal::CONT);
}
