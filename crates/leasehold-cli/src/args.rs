//! What can be typed.

use std::{ffi::OsString, fmt, ops::Deref, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use leasehold::{Error, Name, Ttl, parse_duration};

use crate::help;

/// A lock across machines and processes, for scripts and cron jobs.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, long_about = help::LONG, after_help = help::EXAMPLES, after_long_help = help::MORE)]
#[command(subcommand_required = true, arg_required_else_help = true, infer_long_args = false)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Where leases are kept, as a URL; else `$LEASEHOLD_STORE`, else a file of this user
    #[arg(long, global = true, value_name = "URL", long_help = help::STORE, display_order = 100)]
    pub(crate) store: Option<Secret>,
    /// Answer with one JSON document on stdout, errors too
    #[arg(long, global = true, display_order = 101)]
    pub(crate) json: bool,
}

/// A password may be in it, or it is one: it is never shown.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Deref for Secret {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take a lease, run a command while renewing it, release it, and exit as the command did
    #[command(long_about = help::RUN, after_help = help::RUN_EXAMPLES)]
    Run(Run),
    /// Take a lease and print its ticket
    #[command(long_about = help::ACQUIRE, after_help = help::ACQUIRE_EXAMPLES)]
    Acquire(Acquire),
    /// Renew the lease of a ticket: its whole ttl begins anew
    #[command(after_help = help::RENEW_EXAMPLES)]
    Renew(TicketArgs),
    /// Release the lease of a ticket
    #[command(after_help = help::RELEASE_EXAMPLES)]
    Release(TicketArgs),
    /// Say whether a ticket's lease is still held: exit 0 if so, 79 if not
    #[command(after_help = help::CHECK_EXAMPLES)]
    Check(TicketArgs),
    /// Keep a ticket's lease alive as its second owner; never releases it
    #[command(long_about = help::KEEPALIVE, after_help = help::KEEPALIVE_EXAMPLES)]
    Keepalive(Keepalive),
    /// Show who holds a name, with which fence and for how long, and who waits
    #[command(after_help = help::STATUS_EXAMPLES)]
    Status(Status),
    /// Show every lease in the store
    #[command(after_help = help::LIST_EXAMPLES)]
    List(List),
    /// End the right of a holder to renew its lease
    #[command(long_about = help::BREAK, after_help = help::BREAK_EXAMPLES)]
    Break(Break),
    /// Print the completions for a shell
    #[command(after_help = help::COMPLETIONS_EXAMPLES)]
    Completions(Completions),
    /// Print the manual pages
    #[command(after_help = help::MAN_EXAMPLES)]
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What is locked: 1 to 512 bytes of UTF-8 without control characters
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) claim: ClaimArgs,
    /// What happens to CMD when the lease is lost; with `warn` it goes on, and 0 becomes 79
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    pub(crate) on_lost: OnLost,
    /// What is kept of the lease's validity to end CMD in [default: 5s, at most a third of the ttl]
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) grace: Option<Duration>,
    /// Keep the name taken at least so long, also when CMD is done earlier: once per period across a fleet
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) min_hold: Option<Duration>,
    /// Treat the lease as lost after so long (79)
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) max_hold: Option<Duration>,
    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Acquire {
    /// What is locked: 1 to 512 bytes of UTF-8 without control characters
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) claim: ClaimArgs,
    /// Attach to the lease that an earlier run of the same work still holds, if there is one
    #[arg(long, value_name = "WORK_ID", value_parser = plain_text)]
    pub(crate) attach: Option<String>,
}

/// How to take a lease.
#[derive(Debug, Args)]
pub(crate) struct ClaimArgs {
    /// How long the lease lasts unless it is renewed; `never` is possible and not recommended
    #[arg(long, value_name = "D", default_value = "30s", value_parser = ttl, allow_hyphen_values = true)]
    pub(crate) ttl: Ttl,
    /// How long to wait while another holds it [default: forever]
    #[arg(long, value_name = "D", value_parser = wait, allow_hyphen_values = true, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Wait>,
    /// Do not wait: exit 75 at once if another holds it
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Who we are, for people [default: user@host:pid]
    #[arg(long, value_name = "TEXT", value_parser = plain_text)]
    pub(crate) owner: Option<String>,
    /// Why we want it, for people
    #[arg(long, value_name = "TEXT", value_parser = plain_text)]
    pub(crate) reason: Option<String>,
}

/// How long to wait for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Until it is ours.
    Forever,
    /// So long.
    For(Duration),
}

/// What happens to CMD when its lease is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM, then SIGKILL, before another can have the lease
    Stop,
    /// Say so, and let it go on
    Warn,
}

/// Where the ticket comes from.
#[derive(Debug, Args)]
pub(crate) struct TicketArgs {
    /// The ticket, or `-` to read it from stdin; else `$LEASEHOLD_TICKET`. Others on this machine can see it here
    #[arg(long, value_name = "TICKET", conflicts_with = "ticket_file", allow_hyphen_values = true)]
    pub(crate) ticket: Option<Secret>,
    /// A file that holds the ticket
    #[arg(long, value_name = "FILE")]
    pub(crate) ticket_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Keepalive {
    #[command(flatten)]
    pub(crate) ticket: TicketArgs,
    /// What is kept of the lease's validity to end CMD in [default: 5s, at most a third of the ttl]
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) grace: Option<Duration>,
    /// A command, and its arguments, to keep the lease alive for
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The name
    pub(crate) name: Name,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only names that begin so
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
}

#[derive(Debug, Args)]
pub(crate) struct Break {
    /// The name
    pub(crate) name: Name,
    /// The fence of the holder that is meant, as `status` shows it; a newer holder is untouched
    #[arg(long, value_name = "N")]
    pub(crate) fence: u64,
    /// Free the name at once, though its holder may still be at work
    #[arg(long)]
    pub(crate) now: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write one page for each subcommand into this directory, instead of all to stdout
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// With a hyphen allowed, a duration that was forgotten swallows the option behind it: say that.
fn is_option(text: &str) -> Option<Error> {
    text.starts_with("--").then(|| {
        Error::invalid(format!("{text:?} is an option, and a duration is wanted here"), "write 250ms, 30s, 5m or 1h30m")
    })
}

fn duration(text: &str) -> Result<Duration, Error> {
    is_option(text).map_or_else(|| parse_duration(text), Err)
}

fn ttl(text: &str) -> Result<Ttl, Error> {
    match text {
        "never" | "forever" => Ok(Ttl::Never),
        text => duration(text).map(Ttl::For),
    }
}

fn wait(text: &str) -> Result<Wait, Error> {
    match text {
        "forever" => Ok(Wait::Forever),
        "never" | "0" | "0s" | "0ms" => {
            Err(Error::invalid(format!("{text:?} is no time to wait"), "to not wait at all, say --no-wait"))
        }
        text => duration(text).map(Wait::For),
    }
}

/// Text for people. The library refuses what would spoil their terminals; here it must also say something.
fn plain_text(text: &str) -> Result<String, Error> {
    if text.is_empty() {
        return Err(Error::invalid("the text is empty", "write a short line of text, or leave the option out"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn run(args: &[&str]) -> Result<Run, clap::Error> {
        let args = ["leasehold", "run"].into_iter().chain(args.iter().copied());
        Cli::try_parse_from(args).map(|cli| match cli.command {
            Command::Run(run) => run,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let run = run(&["x", "--", "true"]).unwrap();
        assert_eq!(run.claim.ttl, Ttl::For(Duration::from_secs(30)));
        assert_eq!(run.claim.wait, None);
        assert_eq!(run.on_lost, OnLost::Stop);
        assert_eq!(run.grace, None);
    }

    #[test]
    fn the_store_and_json_stand_before_or_after_the_subcommand() {
        for args in [
            ["leasehold", "--store", "sqlite:/x", "--json", "status", "a"],
            ["leasehold", "status", "--json", "a", "--store", "sqlite:/x"],
        ] {
            let cli = Cli::try_parse_from(args).unwrap();
            assert!(cli.common.json);
            assert_eq!(cli.common.store.as_deref(), Some("sqlite:/x"));
        }
    }

    #[test]
    fn secrets_are_not_in_what_is_shown_for_debugging() {
        let args = ["leasehold", "check", "--store", "redis://:hunter2@h", "--ticket", "lease1.hunter2"];
        let shown = format!("{:?}", Cli::try_parse_from(args).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn what_follows_the_two_hyphens_is_the_commands() {
        let run = run(&["x", "--", "ls", "--json", "--", "-1"]).unwrap();
        assert_eq!(run.command, ["ls", "--json", "--", "-1"]);
    }

    #[test]
    fn durations_are_never_guessed() {
        for bad in ["30", "0s", "-5s", "abc", "", "--json", "1 fortnight"] {
            for option in ["--ttl", "--wait", "--grace", "--min-hold", "--max-hold"] {
                let error = run(&["x", option, bad, "--", "true"]).unwrap_err();
                let failure = crate::failure::Failure::from_clap(&error);
                assert!(failure.message.contains(option), "{option} {bad}: {}", failure.message);
                assert!(!failure.hint.is_empty(), "{option} {bad}");
            }
        }
        assert_eq!(run(&["x", "--wait", "forever", "--", "true"]).unwrap().claim.wait, Some(Wait::Forever));
        assert_eq!(run(&["x", "--ttl", "never", "--", "true"]).unwrap().claim.ttl, Ttl::Never);
    }

    #[test]
    fn text_for_people_says_something() {
        for option in ["--owner", "--reason"] {
            assert!(run(&["x", option, "", "--", "true"]).is_err());
            assert!(run(&["x", option, "Ümlaut, fine", "--", "true"]).is_ok());
        }
    }

    #[test]
    fn waiting_and_not_waiting_exclude_each_other() {
        assert!(run(&["x", "--wait", "5s", "--no-wait", "--", "true"]).is_err());
    }
}
