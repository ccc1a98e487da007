//! The `leasehold` command.

#![allow(rustdoc::broken_intra_doc_links, reason = "comments on arguments are help texts, not documentation")]

mod args;
mod child;
mod commands;
mod exit;
mod failure;
mod help;
mod output;
mod start;
mod store;
mod ticket;
mod waiting;

fn main() -> std::process::ExitCode {
    start::main().into()
}
