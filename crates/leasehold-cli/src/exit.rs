//! The exit codes. They are promises: scripts branch on them.

use std::process::ExitCode;

use leasehold::ErrorKind;

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; `check`: held by this ticket; `release`: released now, or already by this ticket.
    Done,
    /// Bad usage, bad input, or what this store cannot do.
    Usage,
    /// The store cannot be reached, refused us, holds a corrupt record, or nobody knows the outcome.
    Unavailable,
    /// A bug in Leasehold.
    Bug,
    /// Held by another, and not acquired in the time given.
    Contended,
    /// The lease was lost or broken, or is no longer the ticket's.
    Lost,
    /// CMD could not be executed.
    NotExecutable,
    /// CMD was not found.
    NotFound,
    /// CMD's own.
    Command(u8),
    /// CMD, or we, ended by this signal.
    Signal(i32),
}

impl Exit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::Bug => 70,
            Self::Contended => 75,
            Self::Lost => 79,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Command(code) => code,
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(u8::MAX),
        }
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Invalid | ErrorKind::Unsupported => Self::Usage,
            ErrorKind::Unavailable | ErrorKind::Ambiguous | ErrorKind::Corrupt => Self::Unavailable,
            ErrorKind::Contended => Self::Contended,
            ErrorKind::Lost => Self::Lost,
            // A kind that this build does not know is a bug as well.
            _ => Self::Bug,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_the_one_that_was_promised() {
        for (exit, code) in [
            (Exit::Done, 0),
            (Exit::Usage, 64),
            (Exit::Unavailable, 69),
            (Exit::Bug, 70),
            (Exit::Contended, 75),
            (Exit::Lost, 79),
            (Exit::NotExecutable, 126),
            (Exit::NotFound, 127),
            (Exit::Command(7), 7),
            (Exit::Signal(9), 137),
        ] {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
    }

    #[test]
    fn every_kind_of_error_has_its_code() {
        for (kind, code) in [
            (ErrorKind::Invalid, 64),
            (ErrorKind::Unsupported, 64),
            (ErrorKind::Unavailable, 69),
            (ErrorKind::Ambiguous, 69),
            (ErrorKind::Corrupt, 69),
            (ErrorKind::Internal, 70),
            (ErrorKind::Contended, 75),
            (ErrorKind::Lost, 79),
        ] {
            assert_eq!(Exit::from(kind).code(), code, "{kind:?}");
        }
    }
}
