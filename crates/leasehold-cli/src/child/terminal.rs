//! Whose turn it is on the terminal.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{FileType, Mode, OFlags, fstat, open},
    process::{Pid, getpgrp},
    stdio::{stdin, stdout},
    termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp},
};

use super::sys;

/// The controlling terminal, if there is one.
///
/// CMD's group is put into the foreground, so that keys, Ctrl-C and Ctrl-Z go to it and not to us.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: Option<OwnedFd>,
    ours: Pid,
    given: bool,
    /// As they were when CMD started.
    modes: Option<Termios>,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        Self { tty: open("/dev/tty", flags, Mode::empty()).ok(), ours: getpgrp(), given: false, modes: None }
    }

    /// Whether our own group has the terminal.
    pub(super) fn is_ours(&self) -> bool {
        self.tty.as_ref().is_some_and(|tty| tcgetpgrp(tty) == Ok(self.ours))
    }

    /// The terminal that CMD is to take before it starts.
    ///
    /// Not in a pipeline: the others there may want it as well (`leasehold run x -- log | less`) and would be stopped
    /// in the background. CMD then gets it when it asks.
    pub(super) fn for_start(&mut self) -> Option<BorrowedFd<'_>> {
        if !self.is_ours() || is_pipe(stdin()) || is_pipe(stdout()) {
            return None;
        }
        self.given = true;
        self.modes = self.tty.as_ref().and_then(|tty| tcgetattr(tty).ok());
        self.tty.as_ref().map(AsFd::as_fd)
    }

    /// Puts CMD's group into the foreground, if that is ours to give.
    pub(super) fn give(&mut self, group: Pid) {
        if self.is_ours() {
            self.given = self.set(group);
        }
    }

    /// Puts us into the foreground again, if we gave that away.
    pub(crate) fn take_back(&mut self) {
        if std::mem::take(&mut self.given) {
            self.set(self.ours);
        }
    }

    /// Gives the terminal the modes back that it had: a CMD that was killed could not.
    pub(crate) fn restore(&mut self) {
        if let (Some(tty), Some(modes), true) = (&self.tty, self.modes.take(), self.is_ours()) {
            let _ = tcsetattr(tty, OptionalActions::Drain, &modes);
        }
    }

    fn set(&self, group: Pid) -> bool {
        let Some(tty) = &self.tty else { return false };
        sys::without_ttou(|| tcsetpgrp(tty, group)).is_ok()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}

fn is_pipe(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|stat| matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket))
}
