//! How long a grant lasts, and how durations are read.

use std::{fmt, str::FromStr, time::Duration};

use crate::Error;

/// How long a grant lasts unless it is renewed.
///
/// ```
/// use std::time::Duration;
/// use leasehold::Ttl;
///
/// assert_eq!("1h30m".parse::<Ttl>()?, Ttl::For(Duration::from_secs(5400)));
/// assert_eq!("never".parse::<Ttl>()?, Ttl::Never);
/// assert!("30".parse::<Ttl>().unwrap_err().hint().contains("30s"));
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ttl {
    /// So long.
    For(Duration),
    /// For ever: a holder that dies blocks the others until an operator breaks the lease. Not recommended.
    Never,
}

impl Ttl {
    /// The shortest: below this the safety margin would leave too little of it.
    pub const MIN: Duration = Duration::from_millis(20);
    /// The longest, short of [`Never`](Self::Never): a year.
    pub const MAX: Duration = Duration::from_hours(366 * 24);

    /// Refuses what is shorter than [`MIN`](Self::MIN) or longer than [`MAX`](Self::MAX).
    pub(crate) fn checked(self) -> Result<Self, Error> {
        match self {
            Self::For(ttl) if ttl < Self::MIN => Err(Error::invalid(
                format!("a ttl of {} is too short", humantime::format_duration(ttl)),
                "20ms is the least; most jobs do well with the default of 30s",
            )),
            Self::For(ttl) if ttl > Self::MAX => Err(Error::invalid(
                format!("a ttl of {} is too long", humantime::format_duration(ttl)),
                "366days is the most; say `never` for a lease that does not expire",
            )),
            ttl => Ok(ttl),
        }
    }
}

impl From<Duration> for Ttl {
    fn from(span: Duration) -> Self {
        Self::For(span)
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(span) => humantime::format_duration(*span).fmt(f),
            Self::Never => f.write_str("never"),
        }
    }
}

impl FromStr for Ttl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "never" { Ok(Self::Never) } else { parse_duration(text).map(Self::For) }
    }
}

/// Reads `250ms`, `30s`, `5m`, `1h30m`. A bare number, zero or a negative one is refused, never guessed.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(leasehold::parse_duration("250ms")?, Duration::from_millis(250));
/// assert!(leasehold::parse_duration("0s").is_err());
/// # Ok::<(), leasehold::Error>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    let refuse = |why: &str, hint: String| Err(Error::invalid(format!("{text:?} is not a duration: {why}"), hint));
    let examples = || "write 250ms, 30s, 5m or 1h30m".to_owned();
    if text.starts_with('-') {
        return refuse("it is negative", examples());
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return refuse("it has no unit", format!("did you mean {text}s? {}", examples()));
    }
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => refuse("it is zero", examples()),
        Ok(span) => Ok(span),
        Err(error) => refuse(&error.to_string(), examples()),
    }
}
