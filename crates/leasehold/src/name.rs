//! The name of the thing that is locked.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::Error;

/// The thing locked: 1 to 512 bytes of UTF-8 without control characters.
///
/// ```
/// use leasehold::Name;
///
/// let name: Name = "billing/nightly".parse()?;
/// assert_eq!(name.as_str(), "billing/nightly");
/// assert!("".parse::<Name>().is_err());
/// assert!("two\nlines".parse::<Name>().is_err());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Checks `text` and makes a name of it.
    pub fn new(text: &str) -> Result<Self, Error> {
        let reason = if text.is_empty() {
            "it is empty".to_owned()
        } else if text.len() > Self::MAX_BYTES {
            format!("it has {} bytes, and {} is the most", text.len(), Self::MAX_BYTES)
        } else if let Some(bad) = text.chars().find(|c| c.is_control()) {
            format!("it contains the control character {}", bad.escape_default())
        } else {
            return Ok(Self(text.into()));
        };
        Err(Error::invalid(
            format!("this is not a name for a lock: {reason}"),
            "a name has 1 to 512 bytes of UTF-8 without control characters, for example billing/nightly",
        ))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::new(text)
    }
}

impl TryFrom<String> for Name {
    type Error = Error;
    fn try_from(text: String) -> Result<Self, Error> {
        Self::new(&text)
    }
}

impl TryFrom<&str> for Name {
    type Error = Error;
    fn try_from(text: &str) -> Result<Self, Error> {
        Self::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
