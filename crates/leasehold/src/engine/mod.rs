//! The rules of one name, as a pure function.
//!
//! [`apply`] takes what the store keeps for a name (a [`Record`]), a [`Command`], and what the store knows of time
//! (its [`Evidence`]); it changes the record and says what to answer and whom to wake. There is no I/O, no clock and no
//! randomness in here: this is the specification, and a store that cannot run it (a server with scripts of its own) is
//! tested against it.
//!
//! The rules, and where they stand in `rules.rs`:
//!
//! * **Every step may arrive twice or late.** A claim by an attempt id that holds answers with the same fence; a
//!   tombstone refuses one that ended; a renewal compares and never creates.
//! * **First come, first served.** A place in the queue is a number given on arrival; a heartbeat does not change it. A
//!   name that comes free is *offered* to the first waiter that is not parked, for its claim window only: the first
//!   renewal makes it the whole ttl.
//! * **The dead do not stall the living.** An offer that was not answered silences all waiters of that client; a
//!   silent waiter is passed over until its client is heard again, then stands where it stood, and is dropped when its
//!   waiter ttl ends. The one that did not answer has to be heard itself, so that a waiter which a living client has
//!   forgotten costs one claim window, once.
//! * **Permits.** A claim is for n permits of a capacity; a lock is 1 of 1.

mod command;
mod evidence;
mod record;
mod rules;
#[cfg(test)]
mod tests;
mod turns;
#[cfg(test)]
pub(crate) mod variants;
mod view;

pub use command::{
    Break, BreakReply, Check, Claim, ClaimReply, Command, Grant, HandOver, HandOverReply, HoldReply, Leave, LeaveReply,
    News, Queued, Queueing, Release, ReleaseReply, Renew, Reply, Request, Silence, Wake,
};
pub use evidence::{Evidence, Left};
pub use record::{End, Holder, Rare, Record, Span, Stamp, Term, Tombstone, Waiter, Who};
pub(crate) use rules::remembered;
pub use rules::{Applied, apply};
pub use view::view;

/// Test-only switch for the known-bad variants; in a real build it is always off and costs nothing.
#[cfg(not(test))]
macro_rules! bad {
    ($variant:ident) => {
        false
    };
}
#[cfg(test)]
macro_rules! bad {
    ($variant:ident) => {
        $crate::engine::variants::is_on($crate::engine::variants::Variant::$variant)
    };
}
use bad;
