//! A lease in portable form.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::{Error, Name, Ttl, id::AttemptId};

const PREFIX: &str = "lease1.";

/// A lease in portable form: with it, another process keeps the lease alive, or takes it over.
///
/// A ticket is a **bearer secret**: whoever has it can renew the lease, so its `Debug` form hides it. It carries no
/// credentials of the store, no host and no deadline. Its [`Rights`] guard against mistakes, not against malice.
///
/// ```
/// # pollster::block_on(async {
/// use leasehold::{Rights, Ticket};
///
/// let client = leasehold::open("memory:").await?;
/// let lease = client.lock("report")?.acquire().await?;
///
/// let text = lease.share(Rights::RENEW).encode();
/// let ticket: Ticket = text.parse()?;
/// assert_eq!(ticket.fence(), lease.fence());
/// assert!(!format!("{ticket:?}").contains(&text));
/// # lease.release().await?;
/// # Ok::<(), leasehold::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a ticket may be the only way to the lease"]
pub struct Ticket {
    pub(crate) store: String,
    pub(crate) name: Name,
    pub(crate) id: AttemptId,
    pub(crate) fence: Option<u64>,
    pub(crate) ttl: Ttl,
    pub(crate) not_after_ms: Option<u64>,
    pub(crate) rights: Rights,
    pub(crate) tenure: Option<u32>,
}

/// What a ticket's bearer may do. Everyone may check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rights {
    /// Keep the lease alive.
    pub renew: bool,
    /// End it.
    pub release: bool,
}

impl Rights {
    /// May only look.
    pub const CHECK: Self = Self { renew: false, release: false };
    /// May keep the lease alive.
    pub const RENEW: Self = Self { renew: true, release: false };
    /// May keep it alive and release it.
    pub const ALL: Self = Self { renew: true, release: true };
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u32,
    store: String,
    name: Name,
    id: AttemptId,
    fence: Option<u64>,
    ttl_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after_ms: Option<u64>,
    rights: Rights,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenure: Option<u32>,
}

impl Ticket {
    /// The secret text, for another process: one word of letters, digits, `.`, `-` and `_`.
    #[expect(clippy::missing_panics_doc, reason = "it cannot panic")]
    pub fn encode(&self) -> String {
        let wire = Wire {
            v: 1,
            store: self.store.clone(),
            name: self.name.clone(),
            id: self.id,
            fence: self.fence,
            ttl_ms: match self.ttl {
                Ttl::For(ttl) => Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
                Ttl::Never => None,
            },
            not_after_ms: self.not_after_ms,
            rights: self.rights,
            tenure: self.tenure,
        };
        let json = serde_json::to_vec(&wire).expect("text, numbers and booleans are always JSON");
        format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(json))
    }

    /// The name of the lease.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The fence of the lease; `None` on a store that has none.
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// What each renewal gives.
    pub fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// What the bearer may do.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// When the bearer's right to renew ends, by the store's time of day.
    pub fn not_after(&self) -> Option<SystemTime> {
        self.not_after_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms))
    }

    /// The same ticket, good for renewing until then only, or until the earlier time that it had. The store enforces it.
    pub fn with_not_after(mut self, at: SystemTime) -> Self {
        let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        self.not_after_ms = Some(self.not_after_ms.map_or(at, |before| before.min(at)));
        self
    }

    /// The same ticket with fewer rights: what it did not have it does not get.
    pub fn restricted(mut self, rights: Rights) -> Self {
        self.rights =
            Rights { renew: self.rights.renew && rights.renew, release: self.rights.release && rights.release };
        self
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("name", &self.name)
            .field("fence", &self.fence)
            .field("rights", &self.rights)
            .finish_non_exhaustive()
    }
}

impl FromStr for Ticket {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // The text itself is a secret: no message repeats it.
        let refuse = |why: &str| {
            Error::invalid(
                format!("this is not a ticket: {why}"),
                "pass the whole ticket as `leasehold acquire` printed it, one word that begins with lease1.",
            )
        };
        let text = text.trim();
        if text.is_empty() {
            return Err(refuse("it is empty"));
        }
        let body = text.strip_prefix(PREFIX).ok_or_else(|| refuse("it does not begin with lease1."))?;
        let json = BASE64_URL_SAFE_NO_PAD.decode(body).map_err(|_| refuse("it is damaged or cut off"))?;
        let wire: Wire = serde_json::from_slice(&json).map_err(|_| refuse("it is damaged or cut off"))?;
        if wire.v != 1 {
            return Err(Error::unsupported(
                format!("this ticket is of version {}, and this build knows version 1", wire.v),
                "use the same or a newer version of leasehold as the one that made the ticket",
            ));
        }
        Ok(Self {
            store: wire.store,
            name: wire.name,
            id: wire.id,
            fence: wire.fence,
            ttl: wire.ttl_ms.map_or(Ttl::Never, |ms| Ttl::For(Duration::from_millis(ms))).checked()?,
            not_after_ms: wire.not_after_ms,
            rights: wire.rights,
            tenure: wire.tenure,
        })
    }
}
