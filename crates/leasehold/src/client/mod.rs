//! The way in: [`open`] a [`Client`], make a [`Lock`], hold a [`Lease`].
//!
//! * `lock.rs`: what is wanted: name, ttl, patience.
//! * `waiting.rs`: how it is got: claim, wait for a hint or a deadline, claim again.
//! * `lease.rs`: what is held.
//! * `tickets.rs`: what is done with a lease in portable form.

#[cfg(test)]
mod late;
mod lease;
mod lock;
mod tickets;
mod waiting;

use std::{fmt, sync::Arc, time::Duration};

pub use lease::{Lease, Progress};
pub use lock::{Lock, Retry, Waiting};
pub use tickets::Validity;

use crate::{
    clock::{Clock, Moment, SystemClock},
    engine::{Break, BreakReply, Request, Who},
    entropy::{Entropy, SystemEntropy},
    error::Error,
    keeper::Keeper,
    name::Name,
    store::{Answer, Promises, Store},
    stores::{self, StoreUrl},
    view::LeaseView,
};

/// How long the store may take to answer: one that hangs must not hang whoever asks.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// Opens the store of a URL.
///
/// ```
/// # pollster::block_on(async {
/// let client = leasehold::open("memory:").await?;
/// let lease = client.lock("nightly")?.acquire().await?;
/// println!("fence {:?}", lease.fence());
/// lease.release().await?;
/// # Ok::<(), leasehold::Error>(())
/// # }).unwrap();
/// ```
pub async fn open(url: &str) -> Result<Client, Error> {
    Client::builder().url(StoreUrl::parse(url)?).open().await
}

/// An open store. Cheap to clone; all clones share one keeper, which is one thread.
///
/// Leases that were dropped are released in the background: call [`close`](Self::close) before the program ends, or
/// they are left to expire.
#[derive(Clone)]
pub struct Client {
    core: Arc<Core>,
}

/// What a client, its locks and its leases share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) keeper: Keeper,
    who: Arc<Who>,
}

impl Core {
    /// One step on one name, with its answer's own type.
    pub(crate) async fn ask<R: Request>(&self, name: &Name, request: R) -> Result<R::Reply, Error> {
        self.ask_until(name, request, self.clock.now() + ANSWER).await.unwrap_or_else(|| {
            Err(Error::ambiguous(
                format!("the store gave no answer about {name}"),
                "it may have done what was asked, or may do it yet: look at the lease before trying again",
            ))
        })
    }

    /// The same; `None` if the store says nothing until `end`.
    async fn ask_until<R: Request>(&self, name: &Name, request: R, end: Moment) -> Option<Result<R::Reply, Error>> {
        Some(self.answer(self.store.apply(name, request.into()), end).await?.and_then(R::reply))
    }

    /// A look, which changes nothing.
    async fn look<T>(&self, answer: Answer<'_, T>) -> Result<T, Error> {
        self.answer(answer, self.clock.now() + ANSWER).await.unwrap_or_else(|| Err(no_answer()))
    }

    async fn answer<T>(&self, answer: Answer<'_, T>, end: Moment) -> Option<Result<T, Error>> {
        if let Err(error) = self.keeper.ready() {
            return Some(Err(error));
        }
        // An answer that is there at once costs no timer.
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = self.sleep_until(end) => None,
        }
    }

    pub(crate) async fn sleep_until(&self, at: Moment) {
        if let Err(error) = self.keeper.ready() {
            tracing::warn!(%error, "cannot wait");
            return;
        }
        self.keeper.alarm().ring(at).await;
    }
}

impl Client {
    /// For those who bring their own clock, randomness or store.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A lock on `name`, not taken yet.
    pub fn lock(&self, name: impl TryInto<Name, Error: Into<Error>>) -> Result<Lock, Error> {
        Ok(Lock::new(self.core.clone(), name.try_into().map_err(Into::into)?))
    }

    /// Who holds a name, and who waits for it.
    pub async fn inspect(&self, name: &Name) -> Result<LeaseView, Error> {
        self.core.look(self.core.store.inspect(name)).await
    }

    /// Every name that begins with `prefix` and is held or waited for.
    pub async fn list(&self, prefix: &str) -> Result<Vec<LeaseView>, Error> {
        self.core.look(self.core.store.list(prefix)).await
    }

    /// Ends the right of the holder with this fence to renew, so that the name is free when its time is up; `now` frees
    /// it at once, though that holder may still be at work. A newer holder is untouched.
    pub async fn break_lease(&self, name: &Name, fence: u64, now: bool) -> Result<BreakReply, Error> {
        let reply = self.core.ask(name, Break { fence, now }).await?;
        tracing::info!(%name, fence, now, ?reply, "break");
        Ok(reply)
    }

    /// The store below, for tools that go by single steps.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.core.store
    }

    /// What the store promises.
    pub fn promises(&self) -> Promises {
        self.core.store.promises()
    }

    /// Now, on the clock of every deadline.
    pub fn now(&self) -> Moment {
        self.core.clock.now()
    }

    /// Waits on the clock of every deadline, which does not stop while the host sleeps.
    pub async fn sleep_until(&self, at: Moment) {
        self.core.sleep_until(at).await;
    }

    /// Waits until every dropped lease is released and every abandoned place in a queue is given up.
    ///
    /// A store that does not answer is asked until the leases have expired, and for a minute about those that never do.
    pub async fn close(self) {
        self.core.keeper.errands_done().await;
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("store", &self.core.store.fingerprint()).finish_non_exhaustive()
    }
}

/// Makes a [`Client`].
#[derive(Debug, Default)]
#[must_use]
pub struct Builder {
    url: Option<StoreUrl>,
    store: Option<Arc<dyn Store>>,
    clock: Option<Arc<dyn Clock>>,
    entropy: Option<Arc<dyn Entropy>>,
    owner: Option<String>,
}

impl Builder {
    /// The store's URL. Without it: the [embedded](StoreUrl::embedded) store of this user.
    pub fn url(mut self, url: StoreUrl) -> Self {
        self.url = Some(url);
        self
    }

    /// A store of your own, instead of one by URL.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Another clock than the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Another randomness than the system's: for simulation only.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = Some(entropy);
        self
    }

    /// Who the holder says it is, instead of `user@host:pid`.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Opens the store.
    #[expect(clippy::unused_async, reason = "stores across a network connect here")]
    pub async fn open(self) -> Result<Client, Error> {
        let clock = self.clock.unwrap_or_else(SystemClock::shared);
        let entropy = self.entropy.unwrap_or_else(|| Arc::new(SystemEntropy));
        let store = match (self.store, self.url) {
            (Some(store), _) => store,
            (None, Some(url)) => stores::open(&url, clock.clone(), &*entropy)?,
            (None, None) => stores::open(&StoreUrl::embedded()?, clock.clone(), &*entropy)?,
        };
        let owner = match self.owner {
            Some(owner) => checked_text("owner", owner)?,
            None => default_owner().into(),
        };
        let keeper = Keeper::new(store.clone(), clock.clone(), entropy.clone());
        let who = Arc::new(Who { owner, reason: None });
        tracing::debug!(store = store.fingerprint(), "open");
        Ok(Client { core: Arc::new(Core { store, clock, entropy, keeper, who }) })
    }
}

pub(crate) fn no_answer() -> Error {
    Error::unavailable("the store gave no answer", "look whether it works, and who keeps it busy")
}

/// `user@host:pid`.
fn default_owner() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let user = user.unwrap_or_else(|_| rustix::process::getuid().as_raw().to_string());
    let host = rustix::system::uname();
    let text = format!("{user}@{}:{}", host.nodename().to_string_lossy(), std::process::id());
    text.chars().filter(|c| !c.is_control()).collect()
}

/// Refuses what would spoil a terminal or a log.
pub(crate) fn checked_text(what: &str, text: String) -> Result<Arc<str>, Error> {
    const MOST: usize = 512;
    if text.chars().any(char::is_control) || text.len() > MOST {
        return Err(Error::invalid(
            format!("the {what} has control characters or more than {MOST} bytes"),
            "it is shown to people in one line: keep it short and plain",
        ));
    }
    Ok(text.into())
}
