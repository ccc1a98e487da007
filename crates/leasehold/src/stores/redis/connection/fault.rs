//! What goes wrong with a connection, in a form that many calls can be told.

use std::{borrow::Cow, io, sync::Arc, time::Duration};

use crate::{Error, stores::redis::resp::Reply};

/// Why there is no connection, or no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Whether the next attempt may fare better.
    transient: bool,
    message: Arc<str>,
    hint: Cow<'static, str>,
}

const SETTLE: &str = "it may have been done or not; the same request again settles it";

impl Fault {
    /// The server could not be reached, or not now.
    pub(crate) fn transient(message: impl Into<Arc<str>>, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { transient: true, message: message.into(), hint: hint.into() }
    }

    /// The server was reached and does not want us, or we not it.
    pub(crate) fn refused(message: impl Into<Arc<str>>, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { transient: false, message: message.into(), hint: hint.into() }
    }

    /// For what was not sent because of this.
    pub(crate) fn error(&self) -> Error {
        let (message, hint) = (self.message.to_string(), self.hint.to_string());
        if self.transient { Error::unavailable(message, hint) } else { Error::refused(message, hint) }
    }

    /// For what was sent and will not be answered because of this.
    pub(crate) fn unanswered(&self) -> Error {
        Error::ambiguous(format!("no answer came: {}", self.message), SETTLE)
    }

    /// For what was not answered in time.
    pub(crate) fn too_late(after: Duration) -> Error {
        let after = Duration::from_millis(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        Error::ambiguous(format!("no answer came within {}", humantime::format_duration(after)), SETTLE)
    }

    /// Says what it was about.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message).into();
        self
    }

    /// Without the password, which some servers repeat when they do not understand us.
    pub(crate) fn without(mut self, password: &str) -> Self {
        if !password.is_empty() && self.message.contains(password) {
            self.message = self.message.replace(password, "…").into();
        }
        self
    }

    pub(crate) fn is_transient(&self) -> bool {
        self.transient
    }

    /// The same, worth another attempt: a primary that Sentinel named may become one in a moment.
    pub(crate) fn for_now(mut self) -> Self {
        self.transient = true;
        self
    }

    pub(crate) fn io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                Self::transient("connection refused", "is the server running, and is this its port?")
            }
            io::ErrorKind::NotFound => {
                Self::transient("there is no such socket", "is the server running, and is this its `unixsocket`?")
            }
            io::ErrorKind::PermissionDenied => Self::refused(
                "permission denied",
                "the socket's owner and mode (`unixsocketperm`) must let this user in",
            ),
            _ => Self::transient(error.to_string(), "look at the network and at the server's log"),
        }
    }

    pub(crate) fn closed() -> Self {
        Self::transient("the server closed the connection", "was it restarted? Its log says why")
    }

    pub(crate) fn closed_at_once() -> Self {
        Self::transient(
            "the server closed the connection at once",
            "does it want TLS (rediss://), does it admit this host, or has it too many clients?",
        )
    }
}

/// What a refusal of the server means. Each that an operator has to mend has its own hint.
pub(crate) fn refusal(text: &str) -> Fault {
    let code = text.split(' ').next().unwrap_or_default();
    let said = |what: &str| format!("{what} ({text})");
    match code {
        "WRONGPASS" => Fault::refused(
            said("the server refused the user or the password"),
            "check both in the store's URL, and with ACL LIST on the server that the user is on",
        ),
        "NOAUTH" => Fault::refused(
            said("the server wants a password"),
            "write redis://:password@host, or redis://user:password@host",
        ),
        "NOPERM" => Fault::refused(
            said("the user may not do this"),
            "the user needs the lock's keys and channels, and the commands of scripts, strings, hashes, lists and sorted \
             sets, with INFO, SUBSCRIBE, PUBLISH and SCAN",
        ),
        "DENIED" => Fault::refused(
            said("the server is in protected mode"),
            "it admits only its own host until it has a password, or `protected-mode no`",
        ),
        "READONLY" => Fault::refused(
            said("this server is a read-only replica"),
            "name the primary in the store's URL, or let Sentinel find it with redis+sentinel://",
        ),
        "LOADING" => Fault::transient(said("the server is still loading its data"), "try again in a moment"),
        "BUSY" => Fault::transient(
            said("the server is busy with a script"),
            "it answers when that script ends; SCRIPT KILL ends one that has written nothing",
        ),
        "MASTERDOWN" => {
            Fault::transient(said("this replica has lost its primary"), "name the primary in the store's URL")
        }
        "OOM" => Fault::refused(
            said("the server has no memory left"),
            "raise its maxmemory, or remove what fills it; locks need little",
        ),
        "MISCONF" => Fault::refused(
            said("the server takes no writes because it cannot save them"),
            "see its log: as a rule the disk is full or not writable",
        ),
        "NOREPLICAS" => Fault::transient(
            said("the server has too few replicas to take writes"),
            "see its `min-replicas-to-write` and its replicas",
        ),
        "CLUSTERDOWN" | "TRYAGAIN" => {
            Fault::transient(said("the cluster is not ready"), "see CLUSTER INFO on the server")
        }
        "MOVED" | "ASK" | "CROSSSLOT" => Fault::refused(
            said("the keys of this lock live on another node of a cluster"),
            "a store is one primary: name the node, or use a server that is not part of a cluster",
        ),
        _ if text.contains("max number of clients") => Fault::transient(
            said("the server has too many clients"),
            "raise its `maxclients`, or look for who keeps connections open",
        ),
        _ => Fault::refused(said("the server refused"), "see the server's documentation for this answer"),
    }
}

/// A reply that is no refusal.
pub(crate) fn accepted(reply: Reply) -> Result<Reply, Error> {
    match reply {
        Reply::Error(text) if text.starts_with("WRONGTYPE") => Err(Error::corrupt(
            format!("there is a key of another type in the place of ours ({text})"),
            "another program uses this name: choose another name or prefix, or remove the key",
        )),
        Reply::Error(text) => Err(refusal(&text).error()),
        reply => Ok(reply),
    }
}

/// Whether a refusal means that this is no longer the server that we connected to: its data may be another's.
pub(crate) fn ends_connection(reply: &Reply) -> bool {
    matches!(reply.error_code(), Some("READONLY" | "LOADING" | "MASTERDOWN"))
}
