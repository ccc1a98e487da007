//! One writer at a time, and none starves.
//!
//! SQLite's own writers poll for the lock: with eight busy processes some of them wait for seconds and then fail. In
//! front of it stands a file lock for which the kernel keeps a queue.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError as MutexTaken,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::fs::OFlags;

use super::{faults::explain_io, place::Place};
use crate::error::Error;

/// The file beside the database.
#[derive(Debug)]
pub(super) struct Turnstile {
    /// The lock belongs to the open file, so that two threads which share it must take turns first.
    file: Mutex<File>,
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
        Ok(Self { file: Mutex::new(file), queue: AtomicUsize::new(0) })
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
