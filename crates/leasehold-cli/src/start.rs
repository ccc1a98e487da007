//! From the command line to a command, and back to an exit code.

use std::{
    env,
    io::Write,
    panic::{self, UnwindSafe},
};

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::{
    args::{Cli, Command, Common},
    commands,
    exit::Exit,
    failure::{self, Failure},
    output::{self, Output},
};

const LOG: &str = "LEASEHOLD_LOG";

/// What a command works with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) common: Common,
    pub(crate) output: Output,
}

pub(crate) fn main() -> Exit {
    panic::set_hook(Box::new(|panic| {
        let _ = writeln!(
            std::io::stderr(),
            "leasehold: a bug: {}\nhint: please report this message with the command that led to it",
            output::scrub(&panic.to_string())
        );
    }));
    or_bug(|| {
        let cli = match Cli::try_parse() {
            Ok(cli) => cli,
            Err(error) if failure::is_answer(&error) => {
                let _ = error.print();
                return Exit::Done;
            }
            Err(error) => {
                let failure = Failure::from_clap(&error);
                asked_for_json().failure(&failure);
                return failure.exit;
            }
        };
        let context = Context { output: Output::new(cli.common.json), common: cli.common };
        dispatch(&context, cli.command).unwrap_or_else(|failure| {
            context.output.failure(&failure);
            failure.exit
        })
    })
}

/// A panic is our fault, and nobody else's exit code.
fn or_bug(work: impl FnOnce() -> Exit + UnwindSafe) -> Exit {
    panic::catch_unwind(work).unwrap_or(Exit::Bug)
}

/// The arguments could not be read, but this one may stand among them.
fn asked_for_json() -> Output {
    Output::new(env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json"))
}

fn dispatch(context: &Context, command: Command) -> Result<Exit, Failure> {
    log()?;
    // One thread is enough, and CMD must be started by this one.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("the runtime could not be started", error))?;
    runtime.block_on(async {
        match command {
            Command::Run(args) => commands::run::run(context, args).await,
            Command::Acquire(args) => commands::acquire::run(context, args).await,
            Command::Renew(args) => commands::renew::run(context, &args).await,
            Command::Release(args) => commands::release::run(context, &args).await,
            Command::Check(args) => commands::check::run(context, &args).await,
            Command::Keepalive(args) => commands::keepalive::run(context, args).await,
            Command::Status(args) => commands::status::run(context, &args).await,
            Command::List(args) => commands::list::run(context, &args).await,
            Command::Break(args) => commands::break_::run(context, &args).await,
            Command::Completions(args) => commands::completions::run(&args),
            Command::Man(args) => commands::man::run(&args),
        }
    })
}

/// Logs go to stderr, and only if asked for: setting them up costs more than taking a lease.
fn log() -> Result<(), Failure> {
    let Some(filter) = env::var_os(LOG).filter(|filter| !filter.is_empty()) else { return Ok(()) };
    let filter = filter.to_str().and_then(|filter| EnvFilter::try_new(filter).ok()).ok_or_else(|| {
        Failure::usage(format!("{LOG} is not a filter for logs"), "write for example debug or leasehold=trace")
    })?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_exits_as_a_bug() {
        assert_eq!(or_bug(|| panic!("on purpose")), Exit::Bug);
        assert_eq!(or_bug(|| Exit::Done), Exit::Done);
    }
}
