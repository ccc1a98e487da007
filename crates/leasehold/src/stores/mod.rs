//! The stores of this build, by URL.

mod memory;
#[cfg(feature = "redis")]
#[cfg_attr(not(test), allow(dead_code, reason = "the store that uses it comes next"))]
mod redis;
pub mod registers;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::{fmt, sync::Arc};

#[cfg(feature = "redis-wire")]
pub use redis::wire as redis_wire;

use crate::{clock::Clock, entropy::Entropy, error::Error, store::Store};

/// Where leases are kept, as a URL: `sqlite:/path/leases.db`, or `memory:` for tests and examples.
///
/// Displayed without its password, if it has one.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

/// The schemes that this build can open, with an example of each.
pub const SCHEMES: &[(&str, &str)] = &[
    #[cfg(feature = "sqlite")]
    ("sqlite", "sqlite:/path/leases.db"),
    ("memory", "memory:"),
];

impl StoreUrl {
    /// Checks the scheme.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let url = Self(text.to_owned());
        let known = url.scheme().is_some_and(|scheme| SCHEMES.iter().any(|(known, _)| *known == scheme));
        if known { Ok(url) } else { Err(url.unknown()) }
    }

    /// The embedded store of this user: `$XDG_STATE_HOME/leasehold/leases.db`, else
    /// `~/.local/state/leasehold/leases.db`.
    pub fn embedded() -> Result<Self, Error> {
        let state = std::env::var_os("XDG_STATE_HOME").filter(|dir| std::path::Path::new(dir).is_absolute());
        let home = || std::env::var_os("HOME").filter(|home| std::path::Path::new(home).is_absolute());
        let path = match state {
            Some(dir) => std::path::PathBuf::from(dir),
            None => home().map(|home| std::path::PathBuf::from(home).join(".local/state")).ok_or_else(|| {
                Error::invalid(
                    "there is no home directory to keep leases in",
                    "name a store with --store sqlite:/path/leases.db or LEASEHOLD_STORE, or set HOME or XDG_STATE_HOME",
                )
            })?,
        };
        let path = path.join("leasehold/leases.db");
        match path.to_str() {
            Some(path) => Ok(Self(format!("sqlite:{path}"))),
            None => Err(Error::invalid(
                format!("the state directory {} is not UTF-8", path.display()),
                "name a store with --store sqlite:/path/leases.db or LEASEHOLD_STORE",
            )),
        }
    }

    /// The URL as it was given, with its password: for opening it again, never for people.
    pub fn as_secret_str(&self) -> &str {
        &self.0
    }

    fn scheme(&self) -> Option<&str> {
        self.0.split_once(':').map(|(scheme, _)| scheme)
    }

    fn unknown(&self) -> Error {
        let schemes: Vec<&str> = SCHEMES.iter().map(|(_, example)| *example).collect();
        let hint = format!("this build has {}", schemes.join(", "));
        match self.scheme() {
            Some(scheme) => Error::invalid(format!("this build has no store of the scheme {scheme:?}"), hint),
            None => Error::invalid("a store is named by a URL, and this has no scheme", hint),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_password(&self.0))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

/// `redis://user:secret@host` becomes `redis://user@host`.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let mut authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // A password with a slash in it that should have been written %2F: what looks like a port is none.
    if rest[..authority].rsplit_once(':').is_some_and(|(_, port)| port.bytes().any(|b| !b.is_ascii_digit())) {
        authority = rest.len();
    }
    let Some(at) = rest[..authority].rfind('@') else { return url.to_owned() };
    let user = rest[..at].split(':').next().unwrap_or_default();
    let separator = if user.is_empty() { "" } else { "@" };
    format!("{scheme}://{user}{separator}{}", &rest[at + 1..])
}

/// Opens the store.
pub(crate) fn open(url: &StoreUrl, clock: Arc<dyn Clock>, entropy: &dyn Entropy) -> Result<Arc<dyn Store>, Error> {
    let (scheme, rest) = url.0.split_once(':').ok_or_else(|| url.unknown())?;
    let (path, options) = rest.split_once('?').map_or((rest, None), |(path, options)| (path, Some(options)));
    if let Some(options) = options {
        let name = options.split(['=', '&']).next().unwrap_or_default();
        return Err(Error::invalid(
            format!("the store {scheme}: has no option {name:?}"),
            format!("{scheme}: takes no options; write {scheme}:{path}"),
        ));
    }
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => sqlite::open(path, clock, entropy),
        "memory" => Ok(memory::open(path, clock, entropy)),
        _ => Err(url.unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("redis://me:secret@host:1/0", "redis://me@host:1/0"),
            ("redis://:secret@host", "redis://host"),
            ("redis://me:se@cret@host/0", "redis://me@host/0"),
            ("redis://me:se/cret@host/0", "redis://me@host/0"),
            ("redis://me:s?e@cret@host/0", "redis://me@host/0"),
            ("redis://host/a@b", "redis://host/a@b"),
            ("redis://host:6379/0?prefix=a@b", "redis://host:6379/0?prefix=a@b"),
            ("redis://[::1]:6379/0?prefix=a@b", "redis://[::1]:6379/0?prefix=a@b"),
            ("sqlite:/a@b.db", "sqlite:/a@b.db"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn an_unknown_scheme_lists_what_this_build_has() {
        let error = StoreUrl::parse("zookeeper://x").unwrap_err();
        assert!(error.hint().contains("memory:"), "{}", error.hint());
    }
}
