//! The promises of Leasehold, as tests that any store can be held to.
//!
//! * [`conformance!`](macro@conformance) makes one test of each promise for each store: a store's test file is one line.
//! * [`process_conformance!`] does the same with real processes, which are killed, stopped and continued.
//! * [`given`] says what each store is given to promise; a store that promises less fails.
//! * [`history`] checks what many processes saw: no two held at once, fences grew, nobody overtook.
//! * [`network`] loses, delays and holds back what goes to a store.
//! * [`taker`] is a process that takes locks and says what happens to it; `lock-taker` is its program.
//! * [`redis_server`] starts, stops and kills real Redis servers.
//! * [`torture`] kills, stops and continues such processes by a seeded schedule.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::unchecked_time_subtraction,
    reason = "a test that cannot go on panics"
)]
#![allow(clippy::similar_names, reason = "`lease` and `least` are what they are about")]

pub mod conformance;
mod fixture;
pub mod given;
pub mod history;
pub mod network;
pub mod processes;
pub mod redis_server;
pub mod resource;
pub mod taker;
pub mod torture;

pub use fixture::Fixture;
