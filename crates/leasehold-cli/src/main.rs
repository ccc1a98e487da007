//! The `leasehold` command.

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
