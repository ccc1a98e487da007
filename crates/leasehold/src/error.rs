//! What can go wrong, sorted by what the caller should do about it.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{name::Name, view::HolderView};

/// What went wrong.
///
/// | variant | what to do |
/// | --- | --- |
/// | [`Contended`](Self::Contended) | another holds it: come back later, or wait longer |
/// | [`Unavailable`](Self::Unavailable) | the store could not be reached or refused us: nothing was taken, try again |
/// | [`Ambiguous`](Self::Ambiguous) | the store may or may not have done it: look before trying again |
/// | [`Lost`](Self::Lost) | stop the work: another may hold the name now |
/// | [`Unsupported`](Self::Unsupported) | this store cannot do that: choose another store or do without |
/// | [`Invalid`](Self::Invalid) | mend the input |
/// | [`Corrupt`](Self::Corrupt) | an operator must look at the record; nothing was changed |
/// | [`Internal`](Self::Internal) | a bug in Leasehold: please report it |
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another holds the name.
    #[error("{0}")]
    Contended(Box<Contended>),
    /// The store could not be reached or refused us.
    #[error("{0}")]
    Unavailable(Box<Problem>),
    /// The store gave no answer, so that nobody knows whether it was done.
    #[error("{0}")]
    Ambiguous(Box<Problem>),
    /// The lease is no longer held.
    #[error("the lease on {name} is no longer held: {loss}")]
    Lost {
        /// What was held.
        name: Name,
        /// How it ended.
        loss: Loss,
    },
    /// This store cannot do that.
    #[error("{0}")]
    Unsupported(Box<Problem>),
    /// The input makes no sense.
    #[error("{0}")]
    Invalid(Box<Problem>),
    /// The store holds something that is not ours, or damaged.
    #[error("{0}")]
    Corrupt(Box<Problem>),
    /// A bug in Leasehold.
    #[error("{0}")]
    Internal(Box<Problem>),
}

/// A message with a hint, and the error below it.
#[derive(Debug)]
pub struct Problem {
    message: String,
    hint: String,
    transient: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

/// Who holds the name that could not be had.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Contended {
    /// What was wanted.
    pub name: Name,
    /// The holder, where the store could tell.
    pub holder: Option<HolderView>,
    /// How long we waited.
    pub waited: Duration,
    /// How often the store was asked.
    pub attempts: u32,
}

impl fmt::Display for Contended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is held", self.name)?;
        let Some(holder) = &self.holder else { return f.write_str(" by another") };
        write!(f, " by {}", holder.owner)?;
        if let Some(reason) = &holder.reason {
            write!(f, " ({reason})")?;
        }
        if let Some(since) = holder.acquired_at() {
            write!(f, " since {}", humantime::format_rfc3339_seconds(since))?;
        }
        match holder.expires_in {
            Some(left) => write!(f, ", {} left unless it is renewed", humantime::format_duration(round(left))),
            None => f.write_str(", and never expires"),
        }
    }
}

/// Cut to milliseconds: what people read.
fn round(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// How a lease ended without its holder's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Loss {
    /// Its time ran out before a renewal came through.
    Expired,
    /// An operator broke it.
    Broken,
    /// Another holds the name now, or took this lease over.
    Overtaken,
    /// Another owner of the same lease released it.
    Released,
    /// It reached its `max_hold`, or its ticket's `not_after`.
    Capped,
    /// The program made no progress for as long as it had promised to.
    Stalled,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it expired before it was renewed",
            Self::Broken => "an operator broke it",
            Self::Overtaken => "another holds it now",
            Self::Released => "it was released",
            Self::Capped => "it reached the longest time that it may be held",
            Self::Stalled => "the program made no progress",
        })
    }
}

/// The kind of an [`Error`], as the command's JSON names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ErrorKind {
    /// See [`Error::Contended`].
    Contended,
    /// See [`Error::Unavailable`].
    Unavailable,
    /// See [`Error::Ambiguous`].
    Ambiguous,
    /// See [`Error::Lost`].
    Lost,
    /// See [`Error::Unsupported`].
    Unsupported,
    /// See [`Error::Invalid`].
    Invalid,
    /// See [`Error::Corrupt`].
    Corrupt,
    /// See [`Error::Internal`].
    Internal,
}

impl Error {
    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Contended(_) => ErrorKind::Contended,
            Self::Unavailable(_) => ErrorKind::Unavailable,
            Self::Ambiguous(_) => ErrorKind::Ambiguous,
            Self::Lost { .. } => ErrorKind::Lost,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::Invalid(_) => ErrorKind::Invalid,
            Self::Corrupt(_) => ErrorKind::Corrupt,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &str {
        match self {
            Self::Contended(_) => "wait longer, or look at who holds it with `leasehold status`",
            Self::Lost { .. } => "stop the work that the lease protected; another may hold the name now",
            Self::Unavailable(problem)
            | Self::Ambiguous(problem)
            | Self::Unsupported(problem)
            | Self::Invalid(problem)
            | Self::Corrupt(problem)
            | Self::Internal(problem) => &problem.hint,
        }
    }

    /// Says what this was about in front of the message.
    #[must_use]
    pub fn context(mut self, what: &str) -> Self {
        if let Self::Unavailable(problem)
        | Self::Ambiguous(problem)
        | Self::Unsupported(problem)
        | Self::Invalid(problem)
        | Self::Corrupt(problem)
        | Self::Internal(problem) = &mut self
        {
            problem.message = format!("{what}: {}", problem.message);
        }
        self
    }

    /// Bad input.
    pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid(Problem::new(message, hint))
    }

    /// What this store cannot do.
    pub fn unsupported(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unsupported(Problem::new(message, hint))
    }

    /// A store that could not be reached: the next attempt may fare better.
    pub fn unavailable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        let mut problem = Problem::new(message, hint);
        problem.transient = true;
        Self::Unavailable(problem)
    }

    /// A store that was reached and refused us: asking again will not help.
    pub fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unavailable(Problem::new(message, hint))
    }

    /// Whether the same request may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(problem) | Self::Ambiguous(problem) if problem.transient)
    }

    /// An outcome that nobody knows.
    pub fn ambiguous(message: impl Into<String>, hint: impl Into<String>) -> Self {
        let mut problem = Problem::new(message, hint);
        problem.transient = true;
        Self::Ambiguous(problem)
    }

    /// Something in the store that is damaged or foreign.
    pub fn corrupt(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Corrupt(Problem::new(message, hint))
    }

    /// A bug.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Internal(Problem::new(message, "this is a bug in Leasehold; please report it with this message"))
    }

    /// Adds the error below.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        if let Self::Unavailable(problem)
        | Self::Ambiguous(problem)
        | Self::Unsupported(problem)
        | Self::Invalid(problem)
        | Self::Corrupt(problem)
        | Self::Internal(problem) = &mut self
        {
            problem.source = Some(source.into());
        }
        self
    }
}

impl Problem {
    #[expect(clippy::unnecessary_box_returns, reason = "an error is carried in every result, so that it is small")]
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Box<Self> {
        Box::new(Self { message: message.into(), hint: hint.into(), transient: false, source: None })
    }
}

/// For what needs no conversion, such as a [`Name`] where a name is wanted.
impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
