//! One writer at a time, and none starves.
//!
//! SQLite's own writers poll for the lock: with eight busy processes some of them wait for seconds and then fail. In
//! front of it stands a file lock, whose waiters the kernel wakes when it is given back. That is not strictly first come,
//! first served: those who are woken race, and one who comes just then may get in before them. But nobody sleeps while
//! the lock is free, and shares come out equal.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError as MutexTaken,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::fs::OFlags;

use super::{faults::explain_io, place::Place};
use crate::error::Error;

/// The file beside the database.
#[derive(Debug)]
pub(super) struct Turnstile {
    /// The lock belongs to the open file, so that two threads which share it must take turns first.
    file: Mutex<File>,
    path: PathBuf,
    /// How many threads wait for it: nobody passes them.
    queue: AtomicUsize,
}

/// Held: nobody else writes.
#[derive(Debug)]
pub(super) struct Turn<'a>(MutexGuard<'a, File>);

impl Turnstile {
    pub(super) fn open(place: &Place) -> Result<Self, Error> {
        let path = place.beside("-turn");
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mode = place.access().file_mode();
                match options.create_new(true).mode(mode).open(&path) {
                    Ok(file) => place.access().give(&file).map(|()| file),
                    // Another process was faster.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.create_new(false).open(&path),
                    Err(error) => Err(error),
                }
            }
            opened => opened,
        };
        let file = file.map_err(|error| explain_io("open", &path, error))?;
        Ok(Self { file: Mutex::new(file), path, queue: AtomicUsize::new(0) })
    }

    /// The turn, if nobody has it or waits for it here.
    pub(super) fn try_pass(&self) -> Option<Turn<'_>> {
        if self.queue.load(Ordering::Acquire) > 0 {
            return None;
        }
        let file = match self.file.try_lock() {
            Ok(file) => file,
            Err(MutexTaken::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(MutexTaken::WouldBlock) => return None,
        };
        match file.try_lock() {
            Ok(()) => Some(Turn(file)),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Error(error)) => {
                unordered(&error);
                Some(Turn(file))
            }
        }
    }

    /// Waits for the turn, but not for ever: whoever has it may have been stopped. It is asked for now and then, since
    /// waiting for a file lock has no end.
    pub(super) fn pass_within(&self, patience: Duration) -> Result<Turn<'_>, Error> {
        let mut waited = Duration::ZERO;
        let mut pause = Duration::from_micros(250);
        loop {
            if let Some(turn) = self.try_pass() {
                return Ok(turn);
            }
            if waited >= patience {
                return Err(Error::unavailable(
                    format!("other processes have kept {} locked for {} s", self.path.display(), patience.as_secs()),
                    "try again; if it lasts, look for a process that was stopped while it had that file open",
                ));
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "before there is a keeper, as SQLite waits for its own locks"
            )]
            thread::sleep(pause);
            waited += pause;
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    /// Waits for the turn.
    pub(super) fn pass(&self) -> Turn<'_> {
        self.queue.fetch_add(1, Ordering::AcqRel);
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        self.queue.fetch_sub(1, Ordering::AcqRel);
        loop {
            match file.lock() {
                Ok(()) => return Turn(file),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    unordered(&error);
                    return Turn(file);
                }
            }
        }
    }
}

/// Only the order is lost: SQLite has a lock of its own.
fn unordered(error: &io::Error) {
    tracing::warn!(%error, "the turnstile does not work here: writers are not served in order");
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the turnstile could not be given back");
        }
    }
}
