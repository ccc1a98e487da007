//! The contract between the client and what keeps the leases.

use std::{fmt, future::Future, pin::Pin};

use crate::{
    engine::{Command, HoldReply, News, Renew, Reply},
    error::Error,
    id::{AttemptId, ClientId},
    name::Name,
    view::LeaseView,
};

/// What a store call gives, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Keeps leases.
///
/// # Contract
///
/// * **One atomic attempt for each call.** A store never loops until it succeeds, sleeps, spawns work that outlives the
///   call, or decides policy: retrying, waiting and giving up are the client's.
/// * **The rules are the engine's.** [`apply`](Self::apply) does to the store what [`engine::apply`](crate::engine::apply)
///   does to a record, in one step that nobody can get between, judged by the store's own knowledge of time.
/// * **Dropped is unknown.** A future that is dropped, or ends in [`Error::Unavailable`] or [`Error::Ambiguous`], may or
///   may not have been carried out, now or later. The client settles that with the same attempt id.
/// * **Refuse, do not weaken.** What a store cannot do it answers with [`Error::Unsupported`]; its
///   [`promises`](Self::promises) say so beforehand, and the conformance suite holds it to them.
/// * **A corrupt or foreign record** is [`Error::Corrupt`] for its name alone, and is left as it is.
pub trait Store: fmt::Debug + Send + Sync {
    /// What this store promises.
    fn promises(&self) -> Promises;

    /// Scheme and path (database, bucket, prefix), never a host or a password: a ticket is good for the same one only.
    fn fingerprint(&self) -> &str;

    /// Where this client is woken: goes into its claims. `None` if the store cannot wake anyone.
    fn client(&self) -> Option<ClientId>;

    /// One atomic step on one name.
    fn apply<'a>(&'a self, name: &'a Name, command: Command) -> Answer<'a, Reply>;

    /// The same for the keeper, whose thread has the deadlines of others to watch: never runs on it for long.
    fn apply_patiently<'a>(&'a self, name: &'a Name, command: Command) -> Answer<'a, Reply> {
        self.apply(name, command)
    }

    /// Renewals that are due together, in as few round trips as the store can. Never runs on the caller's thread for
    /// long: the keeper has other deadlines to watch.
    fn renew_all(&self, renewals: Vec<(Name, Renew)>) -> Answer<'_, Vec<Result<HoldReply, Error>>>;

    /// What anyone may see of a name.
    fn inspect<'a>(&'a self, name: &'a Name) -> Answer<'a, LeaseView>;

    /// Every name that begins with `prefix` and is held or waited for.
    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<LeaseView>>;

    /// The next hint for this client, awaited by the keeper on its runtime. Cancel-safe: a dropped call loses nothing.
    /// A store that never wakes anyone never answers.
    fn next_hint(&self) -> Answer<'_, Hint>;
}

/// Something may have happened to an attempt of this client. A hint may be late, lost or wrong: the record counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The name.
    pub name: Name,
    /// The attempt.
    pub id: AttemptId,
    /// What.
    pub news: News,
}

/// What a store promises beyond the lease itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a promise, kept or not")]
pub struct Promises {
    /// Each grant has a fence that is larger than all before it.
    pub fence: bool,
    /// Waiters are served first come, first served.
    pub fifo: bool,
    /// Waiters are woken, instead of asking again and again.
    pub push: bool,
    /// A lease can be made that never expires.
    pub never: bool,
    /// Other processes see the same leases.
    pub processes: bool,
}

impl Promises {
    /// Everything: what a store is held to unless it says otherwise.
    pub const ALL: Self = Self { fence: true, fifo: true, push: true, never: true, processes: true };
}
