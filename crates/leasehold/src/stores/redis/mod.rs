//! One Redis, or Valkey.
//!
//! * `url.rs`: what a URL says.
//! * `resp/`: the protocol: requests into bytes, bytes into replies.
//! * `connection/`: a connection that is kept up, shared by all tasks.

mod connection;
mod resp;
mod url;
#[cfg(feature = "redis-wire")]
pub mod wire;
