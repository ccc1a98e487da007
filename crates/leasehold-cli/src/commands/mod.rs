//! One file for each subcommand.

pub(crate) mod acquire;
pub(crate) mod break_;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod keepalive;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod run;
pub(crate) mod status;
mod view;
