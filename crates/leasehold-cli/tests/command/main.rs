//! The command from outside: real processes, real signals, real terminals, a store in a directory of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod exit_codes;
mod help;
mod input;
mod json;
mod keepalive;
mod losing;
mod operators;
mod running;
mod signals;
mod support;
mod terminal;
mod waiting;
