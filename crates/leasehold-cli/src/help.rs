//! What `--help` teaches.

pub(crate) const LONG: &str = "\
A lock across machines and processes, for scripts and cron jobs.

A lease is a lock with a time limit: if its holder dies, the others go on when the time is up. `leasehold run` takes \
it, runs a command, keeps it alive meanwhile, and ends the command if the lease is ever lost, before another can have \
it.";

macro_rules! examples {
    () => {
        "\
Examples:
  leasehold run backup -- ./backup.sh              one backup at a time, others wait
  leasehold run report --no-wait -- ./report.sh    skip this time if it still runs
  leasehold status backup                          who holds it, who waits"
    };
}

pub(crate) const EXAMPLES: &str = examples!();

pub(crate) const MORE: &str = concat!(
    examples!(),
    "\
\n\nExit codes:
  0         done
  CMD's     from `run` and `keepalive -- CMD`; 128+N if signal N ended it
  64        bad usage, bad input, or what this store cannot do
  69        the store cannot be reached, refused us, or its answer cannot be trusted
  70        a bug in Leasehold
  75        held by another, and not acquired within --wait
  79        the lease was lost or broken, or the ticket's lease is no longer held
  126, 127  CMD could not be executed, or was not found

Environment:
  LEASEHOLD_STORE   the store, where --store is not given
  LEASEHOLD_TICKET  the ticket, where --ticket and --ticket-file are not given
  LEASEHOLD_LOG     logs on stderr, for example debug or leasehold=trace
  NO_COLOR          no colours

Durations read 250ms, 30s, 5m or 1h30m."
);

pub(crate) const STORE: &str = "\
Where leases are kept, as a URL, for example sqlite:/var/lib/leases.db. Without it $LEASEHOLD_STORE is used, and without \
that one file of this user: $XDG_STATE_HOME/leasehold/leases.db, else ~/.local/state/leasehold/leases.db.";

pub(crate) const RUN: &str = "\
Take a lease, run a command while renewing it, release it, and exit as the command did.

If the lease is lost, or can no longer be proved held, CMD and all processes of its group get SIGTERM, then SIGKILL, and \
are gone before another can have the lease: the last --grace of its validity is kept for that. The exit is then 79.

CMD finds LEASEHOLD_NAME, LEASEHOLD_FENCE, LEASEHOLD_STORE and LEASEHOLD_TICKET in its environment; the ticket may renew \
and check the lease, not release it. Pass the fence to what CMD writes to: it can refuse a smaller one than it has seen.";

pub(crate) const RUN_EXAMPLES: &str = "\
Examples:
  leasehold run backup -- ./backup.sh
  leasehold run backup --wait 10m --reason 'before the upgrade' -- ./backup.sh
  leasehold run report --no-wait -- ./report.sh         in cron: skip if it still runs (75)
  leasehold run mail --no-wait --min-hold 1h -- ./mail  once an hour across a fleet
  leasehold run import --max-hold 2h -- ./import        never longer than two hours (79)";

pub(crate) const ACQUIRE: &str = "\
Take a lease and print its ticket on stdout.

Nobody renews the lease then but you: call `leasehold renew`, or leave that to `leasehold keepalive`, before its ttl is \
over. The ticket is a secret: whoever has it can renew and release the lease.";

pub(crate) const ACQUIRE_EXAMPLES: &str = "\
Examples:
  LEASEHOLD_TICKET=$(leasehold acquire deploy --ttl 10m) && export LEASEHOLD_TICKET
  leasehold renew
  leasehold release

  leasehold acquire build --attach job-4711    again ours after a restart, if job-4711 held it";

pub(crate) const RENEW_EXAMPLES: &str = "\
The ticket comes from --ticket, --ticket-file or $LEASEHOLD_TICKET.

Examples:
  leasehold renew                              with $LEASEHOLD_TICKET
  leasehold renew --ticket-file /run/deploy.ticket
  vault read ticket | leasehold renew --ticket -";

pub(crate) const RELEASE_EXAMPLES: &str = "\
Exit 0: released now, or already by this ticket. Exit 79: no longer held by this ticket.

Examples:
  leasehold release                            with $LEASEHOLD_TICKET
  leasehold release --ticket-file /run/deploy.ticket";

pub(crate) const CHECK_EXAMPLES: &str = "\
Examples:
  leasehold check || exit 1                    with $LEASEHOLD_TICKET: stop if it was lost
  leasehold check --json --ticket-file /run/deploy.ticket";

pub(crate) const KEEPALIVE: &str = "\
Keep a ticket's lease alive as its second owner, until stopped, or while CMD runs.

It never releases the lease: that is for the one who acquired it. When the lease is released, broken or overtaken the \
exit is 79, and CMD is ended as in `run`. Without CMD, SIGINT and SIGTERM end it with 0.";

pub(crate) const KEEPALIVE_EXAMPLES: &str = "\
Examples:
  leasehold keepalive -- ./worker              with $LEASEHOLD_TICKET
  leasehold keepalive --ticket-file /run/build.ticket &";

pub(crate) const STATUS_EXAMPLES: &str = "\
Examples:
  leasehold status backup
  leasehold status backup --json | jq .holders[0].owner";

pub(crate) const LIST_EXAMPLES: &str = "\
Examples:
  leasehold list
  leasehold list billing/
  leasehold list --json | jq -r .name          one JSON document for each lease";

pub(crate) const BREAK: &str = "\
End the right of a holder to renew its lease.

The holder learns it at its next renewal at the latest, and the name is free when its time is up, so that nobody \
overlaps. With --now the name is free at once, though the holder may still be at work. The fence says which holder is \
meant: if another holds the name by now it is untouched, and the exit is 79.";

pub(crate) const BREAK_EXAMPLES: &str = "\
Examples:
  leasehold status backup                      shows the fence
  leasehold break backup --fence 4711";

pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  leasehold completions bash > ~/.local/share/bash-completion/completions/leasehold
  leasehold completions zsh > \"${fpath[1]}/_leasehold\"
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish";

pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  leasehold man | man -l -
  leasehold man --dir ~/.local/share/man/man1";
