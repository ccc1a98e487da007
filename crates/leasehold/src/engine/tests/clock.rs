//! Time as the tests will have it.

use std::time::Duration;

use crate::engine::{Evidence, Left, Stamp, Term};

/// The time of day when the virtual clock begins.
pub(super) const DAY: u64 = 1_700_000_000_000;

/// What a store with a clock of its own knows at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    /// Microseconds.
    pub(super) now: u64,
    pub(super) floor: u64,
}

impl At {
    /// Microseconds that are left; `None` if it never ends.
    pub(super) fn left_us(self, term: &Term) -> Option<u64> {
        self.left(term).duration().map(micros)
    }

    pub(super) fn is_over(self, term: &Term) -> bool {
        self.left(term).is_over()
    }
}

pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).expect("no test lasts that long")
}

impl Evidence for At {
    fn now(&self) -> Stamp {
        Stamp(self.now)
    }

    fn left(&self, term: &Term) -> Left {
        let Some(span) = term.span.duration() else { return Left::Forever };
        match span.checked_sub(self.since(term.start)) {
            None | Some(Duration::ZERO) => Left::Over,
            Some(left) => Left::For(left),
        }
    }

    fn since(&self, stamp: Stamp) -> Duration {
        Duration::from_micros(self.now.saturating_sub(stamp.0))
    }

    fn wall_ms(&self) -> u64 {
        DAY + self.now / 1000
    }

    fn fence_floor(&self) -> u64 {
        self.floor
    }
}
