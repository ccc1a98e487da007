//! The four system calls for which there is no safe wrapper.

#![expect(
    unsafe_code,
    reason = "signal dispositions, signal masks and the moment between fork and exec have no safe API"
)]

use std::{
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::process::CommandExt,
    },
    process::Command,
    ptr,
};

use leasehold::clock::{Clock, Moment, SystemClock};
use rustix::process::{Pid, Signal, getpid, kill_current_process_group};

/// Whether this signal is ignored, as `nohup` does with SIGHUP.
pub(super) fn is_ignored(signal: Signal) -> bool {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks for the disposition without changing it; zeroes are a valid `sigaction` should the call fail.
    let current = unsafe {
        libc::sigaction(signal.as_raw(), ptr::null(), current.as_mut_ptr());
        current.assume_init()
    };
    current.sa_sigaction == libc::SIG_IGN
}

/// Does `work` with SIGTTOU blocked on this thread: who hands out the terminal from the background is stopped otherwise.
pub(super) fn without_ttou<T>(work: impl FnOnce() -> T) -> T {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the sets live on this stack and are initialised by `sigemptyset` and `pthread_sigmask`.
    unsafe {
        libc::sigemptyset(mask.as_mut_ptr());
        libc::sigaddset(mask.as_mut_ptr(), libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, mask.as_ptr(), before.as_mut_ptr());
    }
    let done = work();
    // SAFETY: `before` was filled in above, or is the empty set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    done
}

/// Stops our process group as `signal` does by default, and returns when we are continued. Must be called on the main
/// thread: the kernel gives it a signal for the process first, so that we are stopped before this returns.
///
/// The whole group, since a script that started us belongs to the same job. Where nobody could continue us (an orphaned
/// group) the kernel ignores it.
pub(super) fn stop_our_group(signal: Signal) {
    let mut default = MaybeUninit::<libc::sigaction>::zeroed();
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeroes are `SIG_DFL` with an empty mask and no flags; the old disposition is put back as it was.
    unsafe {
        (*default.as_mut_ptr()).sa_sigaction = libc::SIG_DFL;
        if libc::sigaction(signal.as_raw(), default.as_ptr(), before.as_mut_ptr()) == 0 {
            let _ = kill_current_process_group(signal);
            libc::sigaction(signal.as_raw(), before.as_ptr(), ptr::null_mut());
        }
    }
}

/// What the child does before it becomes CMD: die when we die, and take the terminal, so that CMD never finds itself in
/// the background.
pub(super) fn before_exec(command: &mut Command, tty: Option<BorrowedFd<'_>>, due: Moment) {
    let parent = getpid();
    let tty = tty.map(|tty| tty.as_raw_fd());
    // SAFETY: the closure makes system calls only, no allocation and no lock. `tty` is open until `spawn` returns.
    unsafe {
        command.pre_exec(move || become_child(parent, tty, due));
    }
}

/// What the child says when it is too late to become CMD; `exec` itself never does.
pub(super) const TOO_LATE: i32 = libc::ETIME;

fn become_child(parent: Pid, tty: Option<i32>, due: Moment) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // We may have been killed before the line above: then nobody will send that signal.
    if rustix::process::getppid() != Some(parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    if let Some(tty) = tty {
        // SAFETY: see `before_exec`.
        let tty = unsafe { BorrowedFd::borrow_raw(tty) };
        // A terminal that went away is no reason to not run.
        let _ = without_ttou(|| rustix::termios::tcsetpgrp(tty, getpid()));
    }
    // As late as can be: a pause after this line is one while CMD runs.
    if SystemClock.now() >= due {
        return Err(io::Error::from_raw_os_error(TOO_LATE));
    }
    Ok(())
}
