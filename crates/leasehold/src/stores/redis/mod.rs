//! One Redis, or Valkey.
//!
//! * `url.rs`: what a URL says.
//! * `resp/`: the protocol: requests into bytes, bytes into replies.
//! * `connection/`: a connection that is kept up, shared by all tasks.
//! * `keys.rs`: what the keys of a name are called. `scripts/`: the rules, as the server runs them.

mod connection;
mod keys;
mod resp;
mod scripts;
mod url;
#[cfg(feature = "redis-wire")]
pub mod wire;
