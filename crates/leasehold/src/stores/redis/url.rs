//! What a URL of Redis says.
//!
//! `redis://[user:password@]host[:port][/db]`, `rediss://…` with TLS, `redis+unix:///path.sock[?db=…]`,
//! `redis+sentinel://[user:password@]host[:port],…/primary-name[/db]`. No error repeats any part of a URL that might be
//! a password.

use std::{fmt, path::PathBuf, time::Duration};

use crate::{Error, ttl::parse_duration};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// A server, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedisUrl {
    pub(crate) target: Target,
    pub(crate) options: Options,
}

/// A server, and who we are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) login: Option<Login>,
    pub(crate) db: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp { address: Address, tls: Option<Tls> },
    Unix(PathBuf),
    Sentinel { sentinels: Vec<Address>, primary: String },
}

/// Host and port. An IPv6 address stands without its brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Files in PEM form: whom to trust instead of the system's authorities, and what to show of ourselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// `default` if only a password was given.
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("password", &"…").finish()
    }
}

/// How the locks are kept there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Stands before each name.
    pub(crate) prefix: String,
    pub(crate) order: Order,
    /// After a restart nothing is granted until the longest ttl has passed.
    pub(crate) quarantine: bool,
    /// The longest ttl that anyone uses.
    pub(crate) max_ttl: Option<Duration>,
    /// Work on a server that evicts keys.
    pub(crate) allow_eviction: bool,
}

/// Who is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// First come, first served.
    Fifo,
    /// Whoever asks first when it is free.
    None,
}

const SHAPES: &str = "write redis://[user:password@]host[:port][/db], rediss://… for TLS, redis+unix:///path.sock or \
                      redis+sentinel://host[:port],…/primary-name[/db]";
const OPTIONS: &str =
    "prefix, order, quarantine, max_ttl, allow_eviction; db with redis+unix; ca, cert and key with rediss";

fn bad(message: impl Into<String>) -> Error {
    Error::invalid(message, SHAPES)
}

impl RedisUrl {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("a Redis URL has :// after its scheme"))?;
        if rest.contains('#') {
            return Err(bad("a Redis URL has no fragment: write # as %23"));
        }
        let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        let (login, hosts) = authority.rsplit_once('@').map_or((None, authority), |(login, host)| (Some(login), host));
        let login = login.map(login_of).transpose()?.flatten();
        let mut db = 0;
        let place = match scheme {
            "redis" | "rediss" => {
                db = if path.is_empty() { 0 } else { database(path)? };
                let tls = (scheme == "rediss").then(Tls::default);
                Place::Tcp { address: address(hosts, PORT)?, tls }
            }
            "redis+unix" => {
                if !hosts.is_empty() {
                    return Err(bad("a Unix socket has no host: its path begins with the third slash"));
                }
                let path = decoded("the path of the socket", path)?;
                if path.is_empty() {
                    return Err(bad("the path of the socket is missing"));
                }
                Place::Unix(PathBuf::from(format!("/{path}")))
            }
            "redis+sentinel" => {
                let (primary, number) = path.split_once('/').map_or((path, ""), |(primary, db)| (primary, db));
                let primary = decoded("the name of the primary", primary)?;
                if primary.is_empty() {
                    return Err(bad("the name under which the sentinels know the primary is missing"));
                }
                db = if number.is_empty() { 0 } else { database(number)? };
                let sentinels = hosts.split(',').map(|host| address(host, SENTINEL_PORT)).collect::<Result<_, _>>()?;
                Place::Sentinel { sentinels, primary }
            }
            _ => return Err(bad(format!("{scheme:?} is no scheme of Redis"))),
        };
        let mut url = Self { options: Options::of(&place), target: Target { place, login, db } };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
            let value = value.map(|value| decoded("the value of an option", value)).transpose()?;
            url.set(name, value)?;
        }
        if let Place::Tcp { tls: Some(Tls { certificate, key, .. }), .. } = &url.target.place
            && certificate.is_some() != key.is_some()
        {
            return Err(Error::invalid("a certificate of our own needs its key", "give both cert and key, or neither"));
        }
        Ok(url)
    }

    fn set(&mut self, name: &str, value: Option<String>) -> Result<(), Error> {
        let options = &mut self.options;
        match (name, &mut self.target.place) {
            ("prefix", _) => options.prefix = checked_prefix(value.unwrap_or_default())?,
            ("order", _) => {
                options.order = match value.as_deref() {
                    Some("fifo") => Order::Fifo,
                    Some("none") => Order::None,
                    value => return Err(unknown_value("order", value, "fifo or none")),
                };
            }
            ("quarantine", _) => options.quarantine = flag("quarantine", value.as_deref())?,
            ("allow_eviction", _) => options.allow_eviction = flag("allow_eviction", value.as_deref())?,
            ("max_ttl", _) => {
                let value = value.as_deref().unwrap_or_default();
                options.max_ttl = Some(parse_duration(value).map_err(|error| error.context("the option max_ttl"))?);
            }
            ("db", Place::Unix(_)) => self.target.db = database(value.as_deref().unwrap_or_default())?,
            ("ca", Place::Tcp { tls: Some(tls), .. }) => tls.ca = Some(file("ca", value)?),
            ("cert", Place::Tcp { tls: Some(tls), .. }) => tls.certificate = Some(file("cert", value)?),
            ("key", Place::Tcp { tls: Some(tls), .. }) => tls.key = Some(file("key", value)?),
            _ => {
                // Only what looks like an option: with a ? in a password that was not written %3F, it is the password.
                let name =
                    if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') { name } else { "…" };
                return Err(Error::invalid(format!("this store has no option {name:?}"), format!("it has {OPTIONS}")));
            }
        }
        Ok(())
    }
}

impl Options {
    fn of(place: &Place) -> Self {
        Self {
            prefix: "lock:".into(),
            order: Order::Fifo,
            // A failover forgets what was not replicated yet, as a restart may.
            quarantine: matches!(place, Place::Sentinel { .. }),
            max_ttl: None,
            allow_eviction: false,
        }
    }
}

fn login_of(text: &str) -> Result<Option<Login>, Error> {
    let (user, password) = text.split_once(':').map_or((text, None), |(user, password)| (user, Some(password)));
    let user = decoded("the user", user)?;
    match password {
        Some(password) => {
            let user = if user.is_empty() { "default".into() } else { user };
            Ok(Some(Login { user, password: decoded("the password", password)? }))
        }
        None if user.is_empty() => Ok(None),
        None => Err(Error::invalid(
            "the URL has a user and no password",
            "write redis://user:password@host, or redis://:password@host for the default user",
        )),
    }
}

fn address(text: &str, port: u16) -> Result<Address, Error> {
    let (host, number) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| bad("the IPv6 address has no closing bracket"))?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(bad("what stands in brackets is no IPv6 address"));
        }
        (host, rest)
    } else {
        let (host, number) = text.split_at(text.find(':').unwrap_or(text.len()));
        if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
            return Err(bad("the host is neither a name nor an address (an IPv6 address stands in brackets)"));
        }
        (host, number)
    };
    if host.is_empty() {
        return Err(bad("the host is missing"));
    }
    // Shown in no error: with a slash in a password that was not written %2F, this is the password.
    let port = match number.strip_prefix(':') {
        None if number.is_empty() => port,
        Some(number) => number.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
            bad("the port is no number from 1 to 65535 (in a password write / as %2F, ? as %3F, # as %23)")
        })?,
        None => return Err(bad("after the host comes a colon and the port")),
    };
    Ok(Address { host: host.to_owned(), port })
}

fn database(text: &str) -> Result<u32, Error> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    number.ok_or_else(|| bad("the database is no number: Redis numbers its databases, from 0"))
}

fn checked_prefix(prefix: String) -> Result<String, Error> {
    if prefix.len() > 256 || prefix.chars().any(char::is_control) {
        return Err(Error::invalid(
            "the prefix has control characters or more than 256 bytes",
            "it stands before each lock's name; the default is lock:",
        ));
    }
    Ok(prefix)
}

fn flag(name: &str, value: Option<&str>) -> Result<bool, Error> {
    match value {
        None | Some("true" | "yes" | "on" | "1") => Ok(true),
        Some("false" | "no" | "off" | "0") => Ok(false),
        value => Err(unknown_value(name, value, "true or false")),
    }
}

fn file(name: &str, value: Option<String>) -> Result<PathBuf, Error> {
    value.filter(|path| !path.is_empty()).map(PathBuf::from).ok_or_else(|| {
        Error::invalid(format!("the option {name} names no file"), format!("write {name}=/path/to/file.pem"))
    })
}

fn unknown_value(name: &str, value: Option<&str>, values: &str) -> Error {
    let value = value.unwrap_or_default();
    Error::invalid(format!("the option {name} has no value {value:?}"), format!("{name} is {values}"))
}

/// Undoes `%40`. `what` is named in errors, its text is not.
fn decoded(what: &str, text: &str) -> Result<String, Error> {
    let refuse = |why: &str| {
        Error::invalid(
            format!("{what} {why}"),
            "write % itself as %25, and other special characters as % and two hex digits",
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            let (Some(high), Some(low)) = (digit(), digit()) else {
                return Err(refuse("has a % without two hex digits"));
            };
            bytes.push(u8::try_from(high * 16 + low).expect("two hex digits are a byte"));
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| refuse("is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RedisUrl {
        RedisUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn tcp(url: &RedisUrl) -> String {
        match &url.target.place {
            Place::Tcp { address, .. } => address.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_url_says_where_and_who() {
        let url = parse("redis://me:p%40ss%2Fw%25rd@example.org:7000/3?prefix=a%26b:&order=none&quarantine&max_ttl=2m");
        assert_eq!(tcp(&url), "example.org:7000");
        assert_eq!(url.target.login, Some(Login { user: "me".into(), password: "p@ss/w%rd".into() }));
        assert_eq!(url.target.db, 3);
        let options = Options {
            prefix: "a&b:".into(),
            order: Order::None,
            quarantine: true,
            max_ttl: Some(Duration::from_mins(2)),
            allow_eviction: false,
        };
        assert_eq!(url.options, options);
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let url = parse("redis://localhost");
        assert_eq!(tcp(&url), "localhost:6379");
        assert_eq!((url.target.login, url.target.db), (None, 0));
        assert_eq!((url.options.prefix.as_str(), url.options.order), ("lock:", Order::Fifo));
        assert!(!url.options.quarantine && !url.options.allow_eviction);
        assert_eq!(parse("redis://:secret@h").target.login.unwrap().user, "default");
        assert_eq!(parse("redis://h/?prefix=").options.prefix, "");
    }

    #[test]
    fn an_ipv6_host_stands_in_brackets() {
        assert_eq!(tcp(&parse("redis://[::1]:7000/0")), "[::1]:7000");
        assert_eq!(tcp(&parse("redis://me:a:b@[fe80::1]")), "[fe80::1]:6379");
    }

    #[test]
    fn a_unix_socket_has_a_path_and_takes_its_database_as_an_option() {
        let url = parse("redis+unix:///run/my%20redis.sock?db=5&allow_eviction=yes");
        assert_eq!(url.target.place, Place::Unix("/run/my redis.sock".into()));
        assert_eq!(url.target.db, 5);
        assert!(url.options.allow_eviction);
        assert_eq!(parse("redis+unix://me:pw@/s.sock").target.login.unwrap().user, "me");
    }

    #[test]
    fn tls_takes_its_own_files() {
        let url = parse("rediss://h?ca=/ca.pem&cert=/c.pem&key=/k.pem");
        let Place::Tcp { tls: Some(tls), .. } = url.target.place else { panic!() };
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(tls, Tls { ca: path("/ca.pem"), certificate: path("/c.pem"), key: path("/k.pem") });
    }

    #[test]
    fn sentinels_are_many_and_bring_quarantine() {
        let url = parse("redis+sentinel://u:p@a,b:1,[::1]:2/the%20one/4");
        let Place::Sentinel { sentinels, primary } = &url.target.place else { panic!() };
        let shown: Vec<String> = sentinels.iter().map(Address::to_string).collect();
        assert_eq!(shown, ["a:26379", "b:1", "[::1]:2"]);
        assert_eq!((primary.as_str(), url.target.db, url.options.quarantine), ("the one", 4, true));
        assert!(!parse("redis+sentinel://a/m?quarantine=off").options.quarantine);
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        for text in [
            "redis:host",
            "redis://",
            "redis://:6379",
            "redis://h:0",
            "redis://h:65536",
            "redis://h:x",
            "redis://h/x",
            "redis://h/-1",
            "redis://h/+1",
            "redis://h/1/2",
            "redis://h/99999999999",
            "redis://me@h",
            "redis://h#x",
            "redis://a,b",
            "redis://[::1",
            "redis://[::1]x",
            "redis://[x]",
            "redis://u:%zz@h",
            "redis://u:%ff@h",
            "redis://u:%4@h",
            "redis+unix://host/s",
            "redis+unix:///",
            "redis+sentinel://h",
            "redis+sentinel://h/",
            "redis+sentinel://h,/m",
            "redis+sentinel://h/m/x",
            "redis://h?nope=1",
            "redis://h?db=1",
            "redis://h?ca=/x",
            "rediss://h?ca=",
            "rediss://h?cert=/x",
            "redis://h?order",
            "redis://h?order=lifo",
            "redis://h?quarantine=maybe",
            "redis://h?max_ttl=60",
            "redis://h?max_ttl",
            "redis://h?prefix=%00",
        ] {
            let error = RedisUrl::parse(text).expect_err(text);
            assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{text}");
            assert!(!error.hint().is_empty(), "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = parse("redis://me:hunter2@h");
        assert!(!format!("{url:?}").contains("hunter2"));
        for text in [
            "redis://me:hunter2@h:x",
            "redis://me:hunter2/x@h",
            "redis://me:hunter2?x@h",
            "redis://me:1?Hunter2:hunter2@h",
            "redis://me:hunter2#x@h",
            "redis://me:hunter2%@h",
            "redis://hunter2@h",
            "redis://hunter2",
            "redis+unix://me:hunter2@h/s",
        ] {
            if let Err(error) = RedisUrl::parse(text) {
                assert!(!format!("{error} {error:?} {}", error.hint()).contains("hunter2"), "{text}: {error:?}");
            }
        }
    }
}
