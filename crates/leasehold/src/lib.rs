//! A lock across machines, on the store that your team already runs.
//!
//! ```
//! # pollster::block_on(async {
//! let client = leasehold::open("memory:").await?; // in earnest: "sqlite:/var/lib/jobs/leases.db"
//! let lease = client.lock("nightly")?.acquire().await?;
//!
//! // The keeper renews the lease from its own thread while you work. Before each step that matters:
//! assert!(lease.is_valid());
//! // and give the resource the fence, so that it can refuse a holder that was overtaken:
//! println!("write with fence {:?}", lease.fence());
//!
//! lease.release().await?;
//! client.close().await;
//! # Ok::<(), leasehold::Error>(())
//! # }).unwrap();
//! ```
//!
//! # What a lease promises
//!
//! * It **expires** unless it is kept alive, so a holder that died does not block the others for good.
//! * Each grant carries a **fence**, a number that only grows for a name: a resource that remembers the largest it has
//!   seen can refuse a holder that was paused and overtaken.
//! * Its holder is told that it **lost** the lease before anyone else can get it: [`Lease::lost`] always comes, by a
//!   clock that runs on while the host sleeps, with the store reachable or not.
//! * Waiters are served **first come, first served**, woken rather than polling, and dead ones do not stall the living.
//! * It can be **shared or handed over** with a [`Ticket`].
//! * Anyone can **see** who holds what and who waits, and an operator can **break** a lease safely.
//!
//! # Where to start
//!
//! | you want | see |
//! | --- | --- |
//! | a lock around some code | [`Lock::run`] |
//! | a guard that you hold | [`Lock::acquire`], [`Lease`] |
//! | no `async` | [`blocking`] |
//! | to try without waiting, or for a while | [`Lock::try_acquire`], [`Lock::acquire_timeout`] |
//! | once per period, however many try | [`Lock::min_hold`] |
//! | a hung program not to hold for ever | [`Lease::while_progress`], [`Lock::max_hold`] |
//! | another process to keep the lease alive | [`Lease::share`], [`Client::accept`] |
//! | to pass the lease on | [`Lease::hand_over`], [`Client::adopt`] |
//! | to go on after a restart | [`Lock::work`] |
//! | to see, and to break | [`Client::inspect`], [`Client::list`], [`Client::break_lease`] |
//! | the classic expiring lock | [`compat::ExpLock`] |
//! | what each error asks of you | [`Error`] |
//! | a store of your own | [`store::Store`], [`registers::Registers`] |
//!
//! # How it is built
//!
//! The rules of one name are a pure function, the [`engine`]. A [`store`] makes one atomic attempt for each call; the
//! client retries, waits and gives up; the keeper, one thread for each client, renews all its leases and watches their
//! deadlines. Clock and randomness are injected ([`clock`], [`entropy`]).

#[cfg(not(target_os = "linux"))]
compile_error!(
    "leasehold builds on Linux for now: deadlines need a timer on a clock that runs on while the host sleeps"
);

pub mod blocking;
mod client;
pub mod clock;
pub mod compat;
pub mod engine;
pub mod entropy;
mod error;
mod id;
mod keeper;
mod name;
pub mod store;
mod stores;
mod ticket;
mod ttl;
mod view;

pub use client::{Builder, Client, Lease, Lock, Progress, Retry, Validity, Waiting, open};
pub use engine::BreakReply;
pub use error::{Contended, Error, ErrorKind, Loss, Problem};
pub use id::{AttemptId, ClientId};
pub use name::Name;
pub use store::Promises;
#[cfg(feature = "redis-wire")]
#[doc(hidden)]
pub use stores::redis_wire;
pub use stores::{SCHEMES, StoreUrl, registers};
pub use ticket::{Rights, Ticket};
pub use ttl::{Ttl, parse_duration};
pub use view::{HolderView, LeaseView, Phase, WaiterView};

/// README's examples, run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
