//! What anyone may see of a lease: everything but the secret.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::name::Name;

/// Who holds a name, and who waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseView {
    /// The name.
    pub name: Name,
    /// Who holds it; empty when it is free.
    pub holders: Vec<HolderView>,
    /// Who waits, in the order of service; `None` where the store cannot know.
    pub queue: Option<Vec<WaiterView>>,
}

impl LeaseView {
    /// A name that nobody holds and nobody waits for.
    pub fn free(name: Name) -> Self {
        Self { name, holders: Vec::new(), queue: Some(Vec::new()) }
    }
}

/// One holder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderView {
    /// The fence of its grant; `None` on a store that has none.
    pub fence: Option<u64>,
    /// Who it says it is.
    pub owner: Arc<str>,
    /// Why it wants the name.
    pub reason: Option<Arc<str>>,
    /// When it was granted, in milliseconds since 1970.
    pub acquired_at_ms: u64,
    /// What is left unless it is renewed; `None` if it never expires.
    pub expires_in: Option<Duration>,
    /// Where it stands.
    pub phase: Phase,
}

impl HolderView {
    /// When it was granted; `None` if the recorded time is beyond what a calendar can show.
    pub fn acquired_at(&self) -> Option<SystemTime> {
        // Later than the year 9999 cannot be written as a date.
        const LATEST_MS: u64 = 253_402_300_799_000;
        (self.acquired_at_ms <= LATEST_MS).then(|| SystemTime::UNIX_EPOCH + Duration::from_millis(self.acquired_at_ms))
    }
}

/// Where a holder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Phase {
    /// Handed to a waiter that has not confirmed it yet; it goes to the next when the claim window ends.
    Offered,
    /// Held.
    Held,
    /// Broken by an operator: it may not be renewed, and is free when its time is up.
    Broken,
    /// Its work is done; it stays taken until its `min_hold` ends.
    Lingering,
}

/// One waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaiterView {
    /// Its place, from 1.
    pub position: u32,
    /// Who it says it is.
    pub owner: Arc<str>,
    /// Why it wants the name.
    pub reason: Option<Arc<str>>,
    /// How long it has been waiting.
    pub waiting: Duration,
    /// Whether it has gone silent: it is passed over until it is heard again.
    pub silent: bool,
}
