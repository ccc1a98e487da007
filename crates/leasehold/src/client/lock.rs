//! What is wanted.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    Core, Lease, checked_text,
    waiting::{self, Patience},
};
use crate::{
    engine::{Span, Who},
    error::Error,
    name::Name,
    ttl::Ttl,
    view::HolderView,
};

/// A lock on a name, not taken yet: how it shall be taken. Cheap to clone and to use again.
///
/// ```
/// # pollster::block_on(async {
/// use std::time::Duration;
///
/// let client = leasehold::open("memory:").await?;
/// let lock = client.lock("deploy/web")?.ttl(Duration::from_secs(10)).reason("release 1.4");
///
/// let first = lock.try_acquire().await?;
/// assert!(lock.try_acquire().await.is_err(), "held by the first");
/// first.release().await?;
/// # Ok::<(), leasehold::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a lock is taken by `acquire`"]
pub struct Lock {
    core: Arc<Core>,
    pub(super) plan: Plan,
}

/// What is told about a wait.
type Listener = dyn Fn(&Waiting) + Send + Sync;

/// How a lock is to be taken.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) name: Name,
    pub(super) ttl: Ttl,
    pub(super) who: Arc<Who>,
    pub(super) work: Option<Arc<str>>,
    pub(super) min_hold: Option<Duration>,
    pub(super) max_hold: Option<Duration>,
    pub(super) min_validity: Option<Duration>,
    pub(super) keep_alive: bool,
    pub(super) confirmed: bool,
    pub(super) retry: Option<Retry>,
    pub(super) on_wait: Option<Arc<Listener>>,
    /// The first thing about this plan that makes no sense: told when it is used.
    wrong: Option<(String, &'static str)>,
}

/// Asking again and again instead of standing in the queue.
///
/// ```
/// use std::time::Duration;
/// use leasehold::Retry;
///
/// let patient = Retry { attempts: 10, interval: Duration::from_millis(50), jitter: 0.5 };
/// assert_eq!(Retry::default().attempts, 1);
/// # let _ = patient;
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// How often to ask in all.
    pub attempts: u32,
    /// How long to wait between.
    pub interval: Duration,
    /// The share of the interval that is random: 0 to 1.
    pub jitter: f64,
}

impl Default for Retry {
    /// Once.
    fn default() -> Self {
        Self { attempts: 1, interval: Duration::from_millis(10), jitter: 0.0 }
    }
}

/// What is known while waiting.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// The name.
    pub name: Name,
    /// Whom we wait for.
    pub holder: Option<HolderView>,
    /// Our place in the queue, from 1.
    pub position: Option<u32>,
    /// Why the store cannot be asked at the moment.
    pub store_away: Option<String>,
    /// How long we have been waiting.
    pub waited: Duration,
}

impl Lock {
    pub(super) fn new(core: Arc<Core>, name: Name) -> Self {
        let plan = Plan {
            name,
            ttl: Ttl::For(Self::DEFAULT_TTL),
            who: core.who.clone(),
            work: None,
            min_hold: None,
            max_hold: None,
            min_validity: None,
            keep_alive: true,
            confirmed: false,
            retry: None,
            on_wait: None,
            wrong: None,
        };
        Self { core, plan }
    }

    /// The ttl unless another is given.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

    /// The name.
    pub fn name(&self) -> &Name {
        &self.plan.name
    }

    /// How long the grant lasts unless it is renewed, which the keeper does: how long the others wait for a holder that
    /// died.
    pub fn ttl(mut self, ttl: impl Into<Ttl>) -> Self {
        self.plan.ttl = ttl.into();
        self
    }

    /// Who the holder says it is.
    pub fn owner(self, owner: impl Into<String>) -> Self {
        self.describe("owner", owner.into(), |who, owner| Who { owner, ..who })
    }

    /// Why the lock is wanted: shown to those who wait.
    pub fn reason(self, reason: impl Into<String>) -> Self {
        self.describe("reason", reason.into(), |who, reason| Who { reason: Some(reason), ..who })
    }

    fn describe(mut self, what: &str, text: String, change: impl FnOnce(Who, Arc<str>) -> Who) -> Self {
        match checked_text(what, text) {
            Ok(text) => self.plan.who = Arc::new(change(Who::clone(&self.plan.who), text)),
            Err(error) => self.plan.wrong = Some((error.to_string(), "keep it to one short line")),
        }
        self
    }

    /// The work that the lock protects. If the name is held for the same work, acquiring **attaches** to that lease
    /// instead of waiting for it: a restarted orchestrator goes on where its predecessor left off, with the same fence,
    /// and a predecessor that still lives is told that it was overtaken.
    pub fn work(mut self, work: impl Into<String>) -> Self {
        match checked_text("work id", work.into()) {
            Ok(work) => self.plan.work = Some(work),
            Err(error) => self.plan.wrong = Some((error.to_string(), "keep it to one short line")),
        }
        self
    }

    /// The lease lasts at least so long, also when it is released earlier: once per period, however many try. A holder
    /// that dies, or gives the lease to another, takes the promise with it.
    pub fn min_hold(mut self, span: Duration) -> Self {
        self.plan.min_hold = Some(span);
        self
    }

    /// The lease ends after so long, however often it is renewed. The store enforces it.
    pub fn max_hold(mut self, span: Duration) -> Self {
        self.plan.max_hold = Some(span);
        self
    }

    /// Acquired means that at least so much validity is left.
    pub fn min_validity(mut self, span: Duration) -> Self {
        self.plan.min_validity = Some(span);
        self
    }

    /// Acquired means that the whole ttl is there. A name that was waited for is offered for a claim window of
    /// min(1 s, ttl/3) only, until the first renewal, which the keeper makes in time: this has it made first, for those
    /// who give the lease away or could not renew it.
    pub fn confirmed(mut self, confirmed: bool) -> Self {
        self.plan.confirmed = confirmed;
        self
    }

    /// Whether the keeper renews the lease; if not, it ends after its ttl.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.plan.keep_alive = keep_alive;
        self
    }

    /// Ask again and again instead of standing in the queue: others may overtake.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.plan.retry = Some(retry);
        self
    }

    /// Is called whenever more is known about the wait.
    pub fn on_wait(mut self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.plan.on_wait = Some(Arc::new(tell));
        self
    }

    /// Takes the lock, however long that takes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue, and passes on a grant that raced with it.
    pub async fn acquire(&self) -> Result<Lease, Error> {
        self.acquire_within(Patience::Forever).await
    }

    /// Takes the lock if it is free now.
    pub async fn try_acquire(&self) -> Result<Lease, Error> {
        self.acquire_within(Patience::Now).await
    }

    /// Takes the lock, or gives up after `wait`. Cancel-safe, as [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, wait: Duration) -> Result<Lease, Error> {
        self.acquire_within(Patience::Until(self.core.clock.now() + wait)).await
    }

    /// Holds the lock while `work` runs, and gives back its value. The lock is released when it returns, fails or
    /// panics; if the lease is lost, the work is dropped where it stands and the loss is the error.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// let client = leasehold::open("memory:").await?;
    /// let sum = client.lock("sum")?.run(async |lease| lease.fence().map(|_| 1 + 1)).await?;
    /// assert_eq!(sum, Some(2));
    /// # Ok::<(), leasehold::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Lease) -> T) -> Result<T, Error> {
        let lease = self.acquire().await?;
        let value = lease.guard(work(&lease)).await?;
        if let Err(error) = lease.release().await {
            // The work is done, and the keeper goes on trying.
            tracing::warn!(name = %self.plan.name, %error, "not released yet");
        }
        Ok(value)
    }

    async fn acquire_within(&self, patience: Patience) -> Result<Lease, Error> {
        self.plan.check(&self.core)?;
        waiting::acquire(&self.core, &self.plan, patience).await
    }
}

impl Plan {
    fn check(&self, core: &Core) -> Result<(), Error> {
        if let Some((message, hint)) = &self.wrong {
            return Err(Error::invalid(message.clone(), *hint));
        }
        self.ttl.checked()?;
        if self.ttl == Ttl::Never && !core.store.promises().never {
            return Err(Error::unsupported(
                "this store has no leases that never expire",
                "give a ttl; the keeper renews the lease for as long as the program lives",
            ));
        }
        let spans = [("min_hold", self.min_hold), ("max_hold", self.max_hold), ("min_validity", self.min_validity)];
        for (what, span) in spans {
            if span.is_some_and(|span| span.is_zero() || span > Ttl::MAX) {
                return Err(Error::invalid(format!("{what} is zero or too long"), "give between 1ms and 366days"));
            }
        }
        if let (Some(min), Some(max)) = (self.min_hold, self.max_hold)
            && min > max
        {
            return Err(Error::invalid("min_hold is longer than max_hold", "make max_hold the longer one"));
        }
        if let (Some(validity), Ttl::For(ttl)) = (self.min_validity, self.ttl)
            && validity + crate::keeper::margin(ttl) > ttl
        {
            return Err(Error::invalid(
                format!("a ttl of {} can never give a validity of {validity:?}", self.ttl),
                "give a longer ttl: 1 % of it and 2 ms are kept as a margin",
            ));
        }
        if let (Some(validity), Some(most)) = (self.min_validity, self.max_hold)
            && validity + crate::keeper::margin(most) > most
        {
            return Err(Error::invalid(
                format!("a max_hold of {most:?} can never give a validity of {validity:?}"),
                "make max_hold the longer one: 1 % of it and 2 ms are kept as a margin",
            ));
        }
        match self.retry {
            Some(Retry { attempts: 0, .. }) => {
                Err(Error::invalid("a retry policy of no attempts acquires nothing", "give at least 1"))
            }
            Some(Retry { jitter, .. }) if !(0.0..=1.0).contains(&jitter) => {
                Err(Error::invalid("the jitter of a retry policy is not a share", "give 0.0 to 1.0"))
            }
            _ => Ok(()),
        }
    }

    /// How long an unconfirmed grant waits for us: min(1 s, ttl/3).
    pub(super) fn claim_window(&self) -> Span {
        const MOST: Duration = Duration::from_secs(1);
        match self.ttl {
            Ttl::For(ttl) => MOST.min(ttl / 3).into(),
            Ttl::Never => MOST.into(),
        }
    }

    pub(super) fn tell(&self, waiting: impl FnOnce() -> Waiting) {
        if let Some(tell) = &self.on_wait {
            tell(&waiting());
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.plan.name).field("ttl", &self.plan.ttl).finish_non_exhaustive()
    }
}
