//! The operations of a classic expiring lock, for code that is used to them.

use std::time::Duration;

use crate::{Client, Error, ErrorKind, Lease, Name, Retry, Rights, Ttl};

/// A lock that expires and is not renewed, with the operations, defaults and errors of the well-known expiring lock:
/// 60 s expiry, no retries, 10 ms between them.
///
/// It does not stand in the queue, so it may be overtaken, and its holder is not told when it expires: prefer
/// [`Lock`](crate::Lock) in new code.
///
/// ```
/// # pollster::block_on(async {
/// use leasehold::compat::ExpLock;
///
/// let client = leasehold::open("memory:").await?;
/// let mut lock = ExpLock::new(&client, "lock_key")?.retries(3);
/// let greeting = lock.synchronize(async |attempts| format!("got it after {attempts}")).await?;
/// assert_eq!(greeting, "got it after 1");
/// # Ok::<(), leasehold::compat::LockError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct ExpLock {
    client: Client,
    name: Name,
    expiry: Ttl,
    retries: u32,
    interval: Duration,
    lease: Option<Lease>,
}

/// Why an [`ExpLock`] was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// It was taken before and not given back.
    #[error("this lock was already acquired and not unlocked since")]
    AlreadyAcquired,
    /// It was not free, however often it was tried.
    #[error("the lock was not free in {attempts} attempts")]
    TooManyAttempts {
        /// How often.
        attempts: u32,
    },
    /// Anything else.
    #[error(transparent)]
    Other(#[from] Error),
}

impl ExpLock {
    /// A lock on a name: 60 s, no retries, 10 ms.
    pub fn new(client: &Client, name: impl TryInto<Name, Error: Into<Error>>) -> Result<Self, Error> {
        Ok(Self {
            client: client.clone(),
            name: name.try_into().map_err(Into::into)?,
            expiry: Ttl::For(Duration::from_mins(1)),
            retries: 0,
            interval: Duration::from_millis(10),
            lease: None,
        })
    }

    /// How long it lasts; [`Ttl::Never`], which is not recommended, until it is unlocked or broken.
    #[must_use]
    pub fn expiry(mut self, expiry: impl Into<Ttl>) -> Self {
        self.expiry = expiry.into();
        self
    }

    /// How often to try again.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// How long to wait between.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Whether it was locked here and not unlocked since. Does not ask the store.
    pub fn is_locked(&self) -> bool {
        self.lease.is_some()
    }

    /// Whether anyone has it, by the store.
    pub async fn is_key_locked(&self) -> Result<bool, Error> {
        Ok(!self.client.inspect(&self.name).await?.holders.is_empty())
    }

    /// Whether we have it, by the store.
    pub async fn is_key_owned(&self) -> Result<bool, Error> {
        let Some(lease) = &self.lease else { return Ok(false) };
        match self.client.check(&lease.share(Rights::CHECK)).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Lost => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes it if it is free now.
    pub async fn try_lock(&mut self) -> Result<bool, LockError> {
        match self.take(0).await {
            Ok(_) => Ok(true),
            Err(LockError::TooManyAttempts { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes it, trying as often as it may, and says how many attempts that took.
    pub async fn lock(&mut self) -> Result<u32, LockError> {
        self.take(self.retries).await
    }

    /// Gives it back. `false` if it was never acquired, or had expired.
    pub async fn unlock(&mut self) -> Result<bool, Error> {
        match self.lease.take() {
            Some(lease) => lease.release().await,
            None => Ok(false),
        }
    }

    /// Runs `work` with the lock held, hands it the number of attempts and gives back its value. The lock is given back
    /// when it returns, fails or panics.
    pub async fn synchronize<T>(&mut self, work: impl AsyncFnOnce(u32) -> T) -> Result<T, LockError> {
        let attempts = self.lock().await?;
        // Taken out, so that a panic or a dropped future drops it, which gives it back.
        let lease = self.lease.take();
        let value = work(attempts).await;
        if let Some(lease) = lease
            && let Err(error) = lease.release().await
        {
            // The work is done, and the keeper goes on trying.
            tracing::warn!(name = %self.name, %error, "not released yet");
        }
        Ok(value)
    }

    async fn take(&mut self, retries: u32) -> Result<u32, LockError> {
        if self.lease.is_some() {
            return Err(LockError::AlreadyAcquired);
        }
        let retry = Retry { attempts: retries.saturating_add(1), interval: self.interval, jitter: 0.0 };
        let lock = self.client.lock(self.name.clone())?.ttl(self.expiry).keep_alive(false).retry(retry);
        match lock.acquire().await {
            Ok(lease) => {
                let attempts = lease.attempts();
                self.lease = Some(lease);
                Ok(attempts)
            }
            Err(Error::Contended(contended)) => Err(LockError::TooManyAttempts { attempts: contended.attempts }),
            Err(error) => Err(error.into()),
        }
    }
}
