//! What went wrong, as the command tells it.

use std::{error::Error as _, io};

use clap::error::{ContextKind, ContextValue, ErrorKind as UsageKind};
use leasehold::{Error, ErrorKind};

use crate::exit::Exit;

/// An error to tell, and the exit code that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Failure {
    /// Bad usage or bad input.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, kind: ErrorKind::Invalid, message: message.into(), hint: hint.into() }
    }

    /// The lease is not, or no longer, held.
    pub(crate) fn lost(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Lost, kind: ErrorKind::Lost, message: message.into(), hint: hint.into() }
    }

    /// Something that the system refused and that should never be.
    pub(crate) fn system(what: &str, error: impl std::fmt::Display) -> Self {
        Error::internal(format!("{what}: {error}")).into()
    }

    /// CMD could not be started.
    pub(crate) fn not_started(program: &std::ffi::OsStr, error: &io::Error) -> Self {
        let program = program.display();
        if error.kind() == io::ErrorKind::NotFound {
            return Self {
                exit: Exit::NotFound,
                kind: ErrorKind::Invalid,
                message: format!("{program}: command not found"),
                hint: "check its spelling and PATH; a script needs an interpreter that exists".into(),
            };
        }
        Self {
            exit: Exit::NotExecutable,
            kind: ErrorKind::Invalid,
            message: format!("{program}: cannot be executed: {error}"),
            hint: "it must be a program, or a script with the permission to execute it".into(),
        }
    }

    /// What clap refused. `--help` and `--version` are no failures: see [`is_answer`].
    pub(crate) fn from_clap(error: &clap::Error) -> Self {
        if let Some(cause) = error.source().and_then(|cause| cause.downcast_ref::<Error>()) {
            let place = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(arg)) => format!("{arg}: "),
                _ => String::new(),
            };
            return Self::usage(format!("{place}{cause}"), cause.hint());
        }
        if error.kind() == UsageKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Self::usage("what is to be done is missing", "try `leasehold --help`");
        }
        let text = error.render().to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let message = lines.next().unwrap_or("bad usage").trim_start_matches("error: ").to_owned();
        // The arguments that are missing stand in lines of their own.
        let mut parts = vec![message];
        let mut hints = Vec::new();
        for line in lines {
            if let Some(tip) = line.strip_prefix("tip: ") {
                hints.push(tip.to_owned());
            } else if let Some(usage) = line.strip_prefix("Usage: ") {
                hints.push(format!("usage: {usage}"));
            } else if !line.starts_with("For more information") {
                parts.push(line.to_owned());
            }
        }
        hints.push("--help tells more".to_owned());
        Self::usage(parts.join(" "), hints.join("; "))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            exit: error.kind().into(),
            kind: error.kind(),
            message: error.to_string(),
            hint: error.hint().to_owned(),
        }
    }
}

/// Whether clap has an answer for stdout, not an error: `--help` or `--version`.
pub(crate) fn is_answer(error: &clap::Error) -> bool {
    matches!(error.kind(), UsageKind::DisplayHelp | UsageKind::DisplayVersion)
}
