//! CMD: a process group of its own, its signals, its terminal, its end.

mod ending;
mod signals;
mod supervise;
mod sys;
mod terminal;

use std::{io, os::unix::process::CommandExt, process::Command};

use leasehold::clock::Moment;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, test_kill_process_group, waitpid},
};
use tokio::signal::unix::{self, SignalKind, signal};

use self::supervise::now;
use crate::exit::Exit;

pub(crate) use self::{
    signals::Signals,
    supervise::{Outcome, Watch, supervise},
    terminal::Terminal,
};

/// CMD and what it started, as far as that stayed in its group.
#[derive(Debug)]
pub(crate) struct Child {
    /// The leader's process id names the group.
    group: Pid,
    changes: unix::Signal,
    ended: bool,
}

/// What happened to CMD.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Ended(Exit),
    Stopped(Signal),
}

impl Child {
    /// Starts CMD. Must be called on the main thread: CMD dies with the thread that started it.
    /// Not from `due` on, see [`was_too_late`](Self::was_too_late): we may have been paused since the grant.
    pub(crate) fn spawn(
        mut command: Command,
        terminal: &mut Terminal,
        signals: &mut Signals,
        due: Moment,
    ) -> io::Result<Self> {
        // Listen first, or the end of a short CMD is missed.
        let changes = signal(SignalKind::child())?;
        command.process_group(0);
        sys::before_exec(&mut command, terminal.for_start(), due);
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                terminal.take_back();
                return Err(error);
            }
        };
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id is a positive i32");
        // From here on `Drop` ends it, should anything fail.
        let child = Self { group, changes, ended: false };
        signals.listen_for_child()?;
        Ok(child)
    }

    /// Whether CMD was not started because it was due to end already.
    pub(crate) fn was_too_late(error: &io::Error) -> bool {
        error.raw_os_error() == Some(sys::TOO_LATE)
    }

    /// The next thing that happens to CMD itself. Cancel-safe. Never again after its end.
    async fn change(&mut self) -> Change {
        if self.ended {
            return std::future::pending().await;
        }
        loop {
            if let Some(change) = self.poll() {
                return change;
            }
            self.changes.recv().await;
        }
    }

    fn poll(&mut self) -> Option<Change> {
        loop {
            match waitpid(Some(self.group), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Err(Errno::INTR) => {}
                Ok(None) => return None,
                Ok(Some((_, status))) => {
                    if let Some(signal) = status.stopping_signal() {
                        return Some(Change::Stopped(Signal::from_named_raw(signal).unwrap_or(Signal::STOP)));
                    }
                    self.ended = true;
                    return Some(Change::Ended(exit_of(status)));
                }
                // Nobody but us waits for it, so it is there.
                Err(_) => {
                    self.ended = true;
                    return Some(Change::Ended(Exit::Bug));
                }
            }
        }
    }

    /// Sends it to the whole group. A group that is gone needs none.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    /// Whether nobody of the group is left. The number cannot stand for a new group while any of the old is left.
    fn is_gone(&self) -> bool {
        self.ended && test_kill_process_group(self.group) == Err(Errno::SRCH)
    }
}

impl Drop for Child {
    /// On an error or a panic of ours CMD must not go on unguarded.
    fn drop(&mut self) {
        if !self.ended {
            self.signal(Signal::KILL);
        }
    }
}

fn exit_of(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Command(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Bug,
    }
}
