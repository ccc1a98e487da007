//! The same names without `async`, for programs that have no runtime and need none.
//!
//! ```
//! use leasehold::blocking;
//!
//! let client = blocking::open("memory:")?;
//! let lease = client.lock("nightly")?.acquire()?;
//! println!("fence {:?}", lease.fence());
//! lease.release()?;
//! client.close();
//! # Ok::<(), leasehold::Error>(())
//! ```

use std::time::Duration;

use pollster::block_on;

use crate::{
    BreakReply, Error, LeaseView, Loss, Name, Progress, Promises, Retry, Rights, Ticket, Ttl, Validity, Waiting,
    clock::Moment,
};

/// Opens the store of a URL. See [`open`](crate::open()).
pub fn open(url: &str) -> Result<Client, Error> {
    block_on(crate::open(url)).map(Client)
}

/// Opens the [embedded](crate::StoreUrl::embedded) store of this user.
pub fn open_embedded() -> Result<Client, Error> {
    block_on(crate::Client::builder().open()).map(Client)
}

/// An open store. See [`Client`](crate::Client).
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

impl From<crate::Client> for Client {
    fn from(client: crate::Client) -> Self {
        Self(client)
    }
}

impl Client {
    /// See [`Client::lock`](crate::Client::lock).
    pub fn lock(&self, name: impl TryInto<Name, Error: Into<Error>>) -> Result<Lock, Error> {
        self.0.lock(name).map(Lock)
    }

    /// See [`Client::inspect`](crate::Client::inspect).
    pub fn inspect(&self, name: &Name) -> Result<LeaseView, Error> {
        block_on(self.0.inspect(name))
    }

    /// See [`Client::list`](crate::Client::list).
    pub fn list(&self, prefix: &str) -> Result<Vec<LeaseView>, Error> {
        block_on(self.0.list(prefix))
    }

    /// See [`Client::break_lease`](crate::Client::break_lease).
    pub fn break_lease(&self, name: &Name, fence: u64, now: bool) -> Result<BreakReply, Error> {
        block_on(self.0.break_lease(name, fence, now))
    }

    /// See [`Client::accept`](crate::Client::accept).
    pub fn accept(&self, ticket: &Ticket) -> Result<Lease, Error> {
        block_on(self.0.accept(ticket)).map(Lease)
    }

    /// See [`Client::adopt`](crate::Client::adopt).
    pub fn adopt(&self, ticket: &Ticket) -> Result<Lease, Error> {
        block_on(self.0.adopt(ticket)).map(Lease)
    }

    /// See [`Client::renew`](crate::Client::renew).
    pub fn renew(&self, ticket: &Ticket) -> Result<Validity, Error> {
        block_on(self.0.renew(ticket))
    }

    /// See [`Client::check`](crate::Client::check).
    pub fn check(&self, ticket: &Ticket) -> Result<Validity, Error> {
        block_on(self.0.check(ticket))
    }

    /// See [`Client::release`](crate::Client::release).
    pub fn release(&self, ticket: &Ticket) -> Result<bool, Error> {
        block_on(self.0.release(ticket))
    }

    /// See [`Client::promises`](crate::Client::promises).
    pub fn promises(&self) -> Promises {
        self.0.promises()
    }

    /// See [`Client::now`](crate::Client::now).
    pub fn now(&self) -> Moment {
        self.0.now()
    }

    /// See [`Client::sleep_until`](crate::Client::sleep_until).
    pub fn sleep_until(&self, at: Moment) {
        block_on(self.0.sleep_until(at));
    }

    /// See [`Client::close`](crate::Client::close).
    pub fn close(self) {
        block_on(self.0.close());
    }
}

/// A lock on a name, not taken yet. See [`Lock`](crate::Lock).
#[derive(Clone, Debug)]
#[must_use = "a lock is taken by `acquire`"]
pub struct Lock(crate::Lock);

impl Lock {
    /// See [`Lock::name`](crate::Lock::name).
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// See [`Lock::ttl`](crate::Lock::ttl).
    pub fn ttl(self, ttl: impl Into<Ttl>) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// See [`Lock::owner`](crate::Lock::owner).
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self(self.0.owner(owner))
    }

    /// See [`Lock::reason`](crate::Lock::reason).
    pub fn reason(self, reason: impl Into<String>) -> Self {
        Self(self.0.reason(reason))
    }

    /// See [`Lock::work`](crate::Lock::work).
    pub fn work(self, work: impl Into<String>) -> Self {
        Self(self.0.work(work))
    }

    /// See [`Lock::min_hold`](crate::Lock::min_hold).
    pub fn min_hold(self, span: Duration) -> Self {
        Self(self.0.min_hold(span))
    }

    /// See [`Lock::max_hold`](crate::Lock::max_hold).
    pub fn max_hold(self, span: Duration) -> Self {
        Self(self.0.max_hold(span))
    }

    /// See [`Lock::min_validity`](crate::Lock::min_validity).
    pub fn min_validity(self, span: Duration) -> Self {
        Self(self.0.min_validity(span))
    }

    /// See [`Lock::confirmed`](crate::Lock::confirmed).
    pub fn confirmed(self, confirmed: bool) -> Self {
        Self(self.0.confirmed(confirmed))
    }

    /// See [`Lock::keep_alive`](crate::Lock::keep_alive).
    pub fn keep_alive(self, keep_alive: bool) -> Self {
        Self(self.0.keep_alive(keep_alive))
    }

    /// See [`Lock::retry`](crate::Lock::retry).
    pub fn retry(self, retry: Retry) -> Self {
        Self(self.0.retry(retry))
    }

    /// See [`Lock::on_wait`](crate::Lock::on_wait).
    pub fn on_wait(self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        Self(self.0.on_wait(tell))
    }

    /// See [`Lock::acquire`](crate::Lock::acquire).
    pub fn acquire(&self) -> Result<Lease, Error> {
        block_on(self.0.acquire()).map(Lease)
    }

    /// See [`Lock::try_acquire`](crate::Lock::try_acquire).
    pub fn try_acquire(&self) -> Result<Lease, Error> {
        block_on(self.0.try_acquire()).map(Lease)
    }

    /// See [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    pub fn acquire_timeout(&self, wait: Duration) -> Result<Lease, Error> {
        block_on(self.0.acquire_timeout(wait)).map(Lease)
    }

    /// Holds the lock while `work` runs, and gives back its value. The lock is released when it returns or panics. A
    /// plain closure cannot be stopped from outside: it looks at [`Lease::is_valid`] before each step that matters, and
    /// if the lease was lost by its end, that is the error.
    ///
    /// ```
    /// let client = leasehold::blocking::open("memory:")?;
    /// let sum = client.lock("sum")?.run(|lease| if lease.is_valid() { 1 + 1 } else { 0 })?;
    /// assert_eq!(sum, 2);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(&self, work: impl FnOnce(&Lease) -> T) -> Result<T, Error> {
        let lease = self.acquire()?;
        let value = work(&lease);
        let name = lease.name().clone();
        let loss = lease.loss();
        match (lease.release()?, loss) {
            (true, None) => Ok(value),
            (_, loss) => Err(Error::Lost { name, loss: loss.unwrap_or(Loss::Expired) }),
        }
    }
}

/// A lease that is held. See [`Lease`](crate::Lease).
#[derive(Debug)]
#[must_use = "dropping a lease gives it back"]
pub struct Lease(crate::Lease);

impl Lease {
    /// See [`Lease::name`](crate::Lease::name).
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// See [`Lease::fence`](crate::Lease::fence).
    pub fn fence(&self) -> Option<u64> {
        self.0.fence()
    }

    /// See [`Lease::ttl`](crate::Lease::ttl).
    pub fn ttl(&self) -> Ttl {
        self.0.ttl()
    }

    /// See [`Lease::attempts`](crate::Lease::attempts).
    pub fn attempts(&self) -> u32 {
        self.0.attempts()
    }

    /// See [`Lease::waited`](crate::Lease::waited).
    pub fn waited(&self) -> Duration {
        self.0.waited()
    }

    /// See [`Lease::deadline`](crate::Lease::deadline).
    pub fn deadline(&self) -> Moment {
        self.0.deadline()
    }

    /// See [`Lease::remaining`](crate::Lease::remaining).
    pub fn remaining(&self) -> Option<Duration> {
        self.0.remaining()
    }

    /// See [`Lease::is_valid`](crate::Lease::is_valid).
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// See [`Lease::loss`](crate::Lease::loss).
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss()
    }

    /// Waits until the lease is lost. See [`Lease::lost`](crate::Lease::lost).
    pub fn lost(&self) -> Loss {
        block_on(self.0.lost())
    }

    /// See [`Lease::renew`](crate::Lease::renew).
    pub fn renew(&self) -> Result<(), Error> {
        block_on(self.0.renew())
    }

    /// See [`Lease::while_progress`](crate::Lease::while_progress).
    pub fn while_progress(&self, within: Duration) -> Progress {
        self.0.while_progress(within)
    }

    /// See [`Lease::share`](crate::Lease::share).
    pub fn share(&self, rights: Rights) -> Ticket {
        self.0.share(rights)
    }

    /// See [`Lease::detach`](crate::Lease::detach).
    pub fn detach(self) -> Ticket {
        self.0.detach()
    }

    /// See [`Lease::hand_over`](crate::Lease::hand_over).
    pub fn hand_over(self) -> Result<Ticket, Error> {
        block_on(self.0.hand_over())
    }

    /// See [`Lease::release`](crate::Lease::release).
    pub fn release(self) -> Result<bool, Error> {
        block_on(self.0.release())
    }
}

/// A lock with the operations of a classic expiring lock. See [`compat::ExpLock`](crate::compat::ExpLock).
#[derive(Debug)]
pub struct ExpLock(crate::compat::ExpLock);

impl ExpLock {
    /// See [`ExpLock::new`](crate::compat::ExpLock::new).
    pub fn new(client: &Client, name: impl TryInto<Name, Error: Into<Error>>) -> Result<Self, Error> {
        crate::compat::ExpLock::new(&client.0, name).map(Self)
    }

    /// See [`ExpLock::expiry`](crate::compat::ExpLock::expiry).
    #[must_use]
    pub fn expiry(self, expiry: impl Into<Ttl>) -> Self {
        Self(self.0.expiry(expiry))
    }

    /// See [`ExpLock::retries`](crate::compat::ExpLock::retries).
    #[must_use]
    pub fn retries(self, retries: u32) -> Self {
        Self(self.0.retries(retries))
    }

    /// See [`ExpLock::interval`](crate::compat::ExpLock::interval).
    #[must_use]
    pub fn interval(self, interval: Duration) -> Self {
        Self(self.0.interval(interval))
    }

    /// See [`ExpLock::is_locked`](crate::compat::ExpLock::is_locked).
    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    /// See [`ExpLock::is_key_locked`](crate::compat::ExpLock::is_key_locked).
    pub fn is_key_locked(&self) -> Result<bool, Error> {
        block_on(self.0.is_key_locked())
    }

    /// See [`ExpLock::is_key_owned`](crate::compat::ExpLock::is_key_owned).
    pub fn is_key_owned(&self) -> Result<bool, Error> {
        block_on(self.0.is_key_owned())
    }

    /// See [`ExpLock::try_lock`](crate::compat::ExpLock::try_lock).
    pub fn try_lock(&mut self) -> Result<bool, crate::compat::LockError> {
        block_on(self.0.try_lock())
    }

    /// See [`ExpLock::lock`](crate::compat::ExpLock::lock).
    pub fn lock(&mut self) -> Result<u32, crate::compat::LockError> {
        block_on(self.0.lock())
    }

    /// See [`ExpLock::unlock`](crate::compat::ExpLock::unlock).
    pub fn unlock(&mut self) -> Result<bool, Error> {
        block_on(self.0.unlock())
    }

    /// See [`ExpLock::synchronize`](crate::compat::ExpLock::synchronize).
    ///
    /// ```
    /// use leasehold::blocking::{self, ExpLock};
    ///
    /// let client = blocking::open("memory:")?;
    /// let mut lock = ExpLock::new(&client, "lock_key")?;
    /// let attempts = lock.synchronize(|attempts| attempts)?;
    /// assert_eq!(attempts, 1);
    /// # Ok::<(), leasehold::compat::LockError>(())
    /// ```
    pub fn synchronize<T>(&mut self, work: impl FnOnce(u32) -> T) -> Result<T, crate::compat::LockError> {
        block_on(self.0.synchronize(async |attempts| work(attempts)))
    }
}
