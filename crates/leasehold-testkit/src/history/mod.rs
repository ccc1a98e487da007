//! What many parties saw, and whether it can have been.
//!
//! Each party (a process, a task) says what happens to it, with the time on the boot clock that all of them share.
//! [`check`] then looks for
//!
//! * two whose validity overlapped (I1): nobody may rely on a lease while another does;
//! * one that worked on when its validity had ended;
//! * a fence that came twice, or that was not larger than those before it (I2);
//! * a waiter that was overtaken by one that came later, although it lived and was not paused (I4).

mod check;
mod recorder;
#[cfg(test)]
mod tests;

use std::fmt;

use leasehold::Loss;
use serde::{Deserialize, Serialize};

pub use check::check;
pub use recorder::Recorder;

/// Something that happened to a party.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// To whom.
    pub party: String,
    /// When, in nanoseconds on the boot clock.
    pub at: u64,
    /// What.
    pub what: What,
}

/// What can happen to a party.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It is about to ask for the name.
    Asking,
    /// It has a place in the queue.
    Queued,
    /// It no longer wants the name.
    GaveUp,
    /// It holds the name.
    Acquired {
        /// With this fence, if there is one.
        fence: Option<u64>,
    },
    /// It did something under the lease, and believed that it may.
    Worked,
    /// It learnt that it holds the name no longer.
    Lost {
        /// How.
        loss: Loss,
        /// Until when it had relied on it, unless it learnt of the loss earlier.
        deadline: u64,
    },
    /// It is about to give the name back, and relies on it no longer.
    Releasing,
    /// It gave the name back.
    Released {
        /// What it was told: whether it still had it.
        held: bool,
    },
    /// It wrote to what the lock protects.
    Wrote {
        /// Whether that was accepted.
        accepted: bool,
    },
    /// It is about to be killed or stopped: told by whoever does that.
    Signalled,
    /// It was killed: told by whoever did that, when the process was gone.
    Killed,
    /// It was stopped: told by whoever did that, when the process stood still.
    Stopped,
    /// It goes on after a stop.
    Continued,
}

/// Which waits are judged by who came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fifo {
    /// All, but for those who were themselves stopped, killed or gave up.
    Always,
    /// Those during which nobody was stopped or killed. One that dies between giving the name to a waiter and telling
    /// it so takes the wake-up with it: the waiter misses its turn, and is back in its place at its next heartbeat.
    Undisturbed,
}

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// I1: two relied on the name at once.
    Overlap {
        /// The one that held it.
        first: Hold,
        /// The one that got it too early.
        second: Hold,
    },
    /// I2: a later grant had no larger fence.
    FenceNotGrown {
        /// The earlier grant.
        first: Hold,
        /// The later one.
        second: Hold,
    },
    /// I4: one that came later was served earlier, though both were alive.
    Overtaken {
        /// Who had been waiting.
        waiting: String,
        /// Who came later.
        by: Hold,
    },
    /// I1, of one party alone: it went on after its validity had ended.
    WorkedOn {
        /// Its hold.
        hold: Hold,
        /// When it still worked.
        at: u64,
    },
    /// The history makes no sense, so it proves nothing.
    Nonsense {
        /// Whose.
        party: String,
        /// Why.
        why: String,
    },
}

/// A time during which a party relied on the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Who.
    pub party: String,
    /// With this fence.
    pub fence: Option<u64>,
    /// From when.
    pub from: u64,
    /// Until when; `u64::MAX` if it still does.
    pub until: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { first, second } => {
                let by = first.until.saturating_sub(second.from) / 1000;
                write!(f, "overlap by {by} µs: {first:?}, then {second:?}")
            }
            Self::FenceNotGrown { first, second } => write!(f, "the fence did not grow: {first:?}, then {second:?}"),
            Self::Overtaken { waiting, by } => write!(f, "{waiting} was waiting and was overtaken by {by:?}"),
            Self::WorkedOn { hold, at } => write!(f, "worked on at {at} after {hold:?}"),
            Self::Nonsense { party, why } => write!(f, "{party}: {why}"),
        }
    }
}

/// The holds of a history that is in order, or a panic with all that is not.
pub fn assert_sound(events: &[Event]) -> Vec<Hold> {
    match check(events, Fifo::Always) {
        Ok(holds) => holds,
        Err(violations) => {
            let all: Vec<String> = violations.iter().map(Violation::to_string).collect();
            panic!("{} violations in {} events:\n{}", all.len(), events.len(), all.join("\n"))
        }
    }
}
