//! The properties of the engine, and the mistakes that they must catch.
//!
//! * `examples`: the rules, one sentence each.
//! * `script`: what may happen, drawn at random: clients that claim, die, pause and reconnect, requests that are late,
//!   doubled or unanswered, an operator that breaks.
//! * `world` and `party`: play a script against one record on a virtual clock, by the rules of a client.
//! * `beliefs`, `watch`, `line` and `probe`: what must hold meanwhile. Each complaint begins with the name of its rule.
//! * `patience`: what a dead client may cost the living.
//! * `properties` runs all this; `mutants` asserts that it catches every known mistake.

mod beliefs;
mod clock;
mod examples;
mod line;
mod mutants;
mod party;
mod patience;
mod probe;
mod properties;
mod script;
mod watch;
mod world;

use crate::id::AttemptId;

/// What a check comes to: the complaint, if there is one.
type Verdict = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($complaint:tt)+) => {
        if !$holds {
            return Err(format!($($complaint)+));
        }
    };
}
use ensure;

/// An attempt id's number: its `Debug` form hides it, as it should.
fn number(id: AttemptId) -> String {
    let hex = id.to_secret_hex();
    format!("#{}", hex.trim_start_matches('0'))
}
