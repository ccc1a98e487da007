//! What SQLite and the file system complain of, in our words.

use std::{fs::File, io, path::Path};

use rusqlite::ErrorCode;
use rustix::io::Errno;

use crate::error::Error;

/// Where and when something failed.
pub(super) fn explain(path: &Path, error: rusqlite::Error) -> Error {
    let path = path.display();
    let rusqlite::Error::SqliteFailure(failure, _) = &error else {
        return unlike(&path, error);
    };
    let explained = match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            Error::unavailable(
                format!("another program has {path} locked"),
                "try again; if it lasts, look for a program other than Leasehold that has the file open",
            )
        }
        ErrorCode::NotADatabase => Error::corrupt(
            format!("{path} is not a database"),
            "nothing was changed; name another file, or move this one away",
        ),
        ErrorCode::DatabaseCorrupt => Error::corrupt(
            format!("{path} is damaged"),
            "nothing was changed; once nobody works under its leases, move the file and its -wal and -shm away",
        ),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => {
            Error::refused(format!("{path} cannot be written"), WRITABLE)
        }
        // SQLite does not say why.
        ErrorCode::CannotOpen if files_are_used_up() => too_many_files(&format!("open {path}")),
        ErrorCode::CannotOpen => Error::refused(format!("{path} cannot be opened"), WRITABLE),
        ErrorCode::DiskFull => full(&path),
        // The shared memory beside the database is extended before it is used.
        ErrorCode::SystemIoFailure if failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => full(&path),
        ErrorCode::SystemIoFailure => Error::unavailable(
            format!("{path} could not be read or written"),
            "look into the system's log for the disk",
        ),
        ErrorCode::OutOfMemory => Error::unavailable("there is no memory left", "try again when there is"),
        ErrorCode::Unknown | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::SchemaChanged => {
            return unlike(&path, error);
        }
        _ => Error::internal(format!("SQLite did not expect what was asked of {path}")),
    };
    explained.because(error)
}

/// For an error of COMMIT itself: where the disk failed half-way, a crash may yet bring the transaction to light.
pub(super) fn explain_commit(path: &Path, error: rusqlite::Error) -> Error {
    match &error {
        rusqlite::Error::SqliteFailure(failure, _)
            if failure.code == ErrorCode::SystemIoFailure
                && failure.extended_code != rusqlite::ffi::SQLITE_IOERR_SHMSIZE =>
        {
            Error::ambiguous(
                format!("{} failed while it was written", path.display()),
                "look into the system's log for the disk; look at the lease before trying again",
            )
            .because(error)
        }
        _ => explain(path, error),
    }
}

/// Whether another has the lock that SQLite wanted.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Our own marks are on the database, but its tables are not what we made.
fn unlike(path: &dyn std::fmt::Display, error: rusqlite::Error) -> Error {
    Error::corrupt(
        format!("the tables in {path} are not as Leasehold makes them"),
        "nothing was changed; once nobody works under its leases, move the file away",
    )
    .because(error)
}

const WRITABLE: &str =
    "the file and its directory must be writable; name another store with --store sqlite:/path/leases.db";

fn full(path: &dyn std::fmt::Display) -> Error {
    Error::refused(format!("there is no room left on the disk of {path}"), "free some space; nothing was taken")
}

/// `what` needs one file more than this process, or the system, may have open.
fn too_many_files(what: &str) -> Error {
    Error::unavailable(
        format!("cannot {what}: too many files are open"),
        "raise the limit with ulimit -n, or close some; nothing is wrong with the store",
    )
}

/// Whether fewer files can be opened than SQLite opens at once: the database, its log and its shared memory.
fn files_are_used_up() -> bool {
    let files: Result<Vec<File>, io::Error> = (0..3).map(|_| File::open("/")).collect();
    files.is_err_and(|error| matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)))
}

/// What the file system says to `what` was tried with `path`.
pub(super) fn explain_io(what: &str, path: &Path, error: io::Error) -> Error {
    let message = format!("cannot {what} {}", path.display());
    let explained = match Errno::from_io_error(&error) {
        Some(Errno::NOSPC | Errno::DQUOT) => return full(&path.display()).because(error),
        Some(Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG | Errno::NOENT | Errno::ISDIR | Errno::INVAL) => {
            Error::invalid(message, "name a file in a directory of a local disk: sqlite:/path/leases.db")
        }
        Some(Errno::MFILE | Errno::NFILE) => too_many_files(&format!("{what} {}", path.display())),
        Some(Errno::NOMEM | Errno::INTR) => Error::unavailable(message, "try again when the system has more to give"),
        _ => Error::refused(message, WRITABLE),
    };
    explained.because(error)
}
