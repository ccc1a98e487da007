//! What a store knows of time.

use std::time::Duration;

use super::record::{Stamp, Term};

/// What the store can say about time. The engine has no clock of its own, so that one set of rules serves stores with
/// a clock (a server, a shared machine) and stores without (a record that is seen unchanged for its own ttl is stale).
pub trait Evidence {
    /// The stamp of what begins now.
    fn now(&self) -> Stamp;

    /// What is left of a term. A term that never ends is always [`Left::Forever`].
    fn left(&self, term: &Term) -> Left;

    /// How long ago a stamp was.
    fn since(&self, stamp: Stamp) -> Duration;

    /// The time of day in milliseconds since 1970.
    fn wall_ms(&self) -> u64;

    /// No fence is smaller than this: what keeps fences growing when the record is lost.
    fn fence_floor(&self) -> u64;
}

/// What is left of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Over,
    /// So much.
    For(Duration),
    /// It never ends.
    Forever,
}

impl Left {
    /// Whether it has ended.
    pub fn is_over(self) -> bool {
        self == Self::Over
    }

    /// `None` if it never ends.
    pub fn duration(self) -> Option<Duration> {
        match self {
            Self::Over => Some(Duration::ZERO),
            Self::For(left) => Some(left),
            Self::Forever => None,
        }
    }
}
