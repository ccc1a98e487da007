//! `leasehold run NAME -- CMD…`

use std::{ffi::OsString, process::Command, time::Duration};

use leasehold::{
    Client, Error, Lease, Lock, Loss, Rights, Ticket, Ttl,
    clock::{Clock, SystemClock, Timer},
};
use tokio::{select, time::timeout};

use crate::{
    args::{self, ClaimArgs},
    child::{Child, Outcome, Signals, Terminal, Watch, supervise},
    exit::Exit,
    failure::Failure,
    output,
    start::Context,
    store::Chosen,
    waiting::{self, Waited},
};

/// How long the store may take to hear that CMD is done. After that, the lease runs out by itself.
const TO_RELEASE: Duration = Duration::from_secs(5);

/// How much longer it may take if the lease never runs out.
const TO_INSIST: Duration = Duration::from_secs(25);

pub(crate) async fn run(context: &Context, args: args::Run) -> Result<Exit, Failure> {
    let grace = grace(args.grace, args.claim.ttl, args.max_hold)?;
    check_holds(args.min_hold, args.max_hold)?;
    let store = Chosen::new(&context.common)?;
    let mut signals = listen()?;
    let timer = timer()?;
    let client = store.open().await?;

    let mut lock = claim(&client, &args.name, &args.claim, args.max_hold)?;
    if let Some(span) = args.min_hold {
        lock = lock.min_hold(span);
    }
    if let Some(span) = args.max_hold {
        lock = lock.max_hold(span);
    }
    let lease = match waiting::acquire(lock, &args.claim, &mut signals, &args.name).await {
        Ok(Waited::Granted(lease)) => lease,
        Ok(Waited::Interrupted(signal)) => {
            close(client).await;
            return Ok(Exit::Signal(signal.as_raw()));
        }
        Err(failure) => {
            close_after(client, &failure).await;
            return Err(failure);
        }
    };

    let mut watch = Watch { timer, lease: &lease, on_lost: args.on_lost, grace };
    let outcome = guard(&mut watch, &mut signals, &store, &args.command).await;
    let result = match outcome {
        Ok(Outcome::Ended { exit, outlived: before }) => {
            // CMD's own word counts, unless it says that all is well: it may have worked beside another.
            let problem = match release(&client, lease, &mut signals).await {
                Ok(after) => before.or(after).map(|loss| outlived(&args.name, loss)),
                Err(failure) => Some(failure),
            };
            match problem {
                Some(failure) if exit == Exit::Command(0) => Err(failure),
                Some(failure) => {
                    output::say(format_args!("{}; {}", failure.message, failure.hint));
                    Ok(exit)
                }
                None => Ok(exit),
            }
        }
        Ok(Outcome::Stopped { loss, gone }) => {
            let failure = stopped(&args.name, loss, gone);
            if gone {
                // Nothing of ours is at work: another need not wait for the rest of our time.
                let _ = timeout(Duration::from_secs(1), lease.release()).await;
            } else {
                // CMD may still be at work: only time may free the name.
                drop(lease.detach());
            }
            Err(failure)
        }
        Ok(Outcome::NotStarted { loss }) => {
            Err(give_back(&client, lease.detach(), not_started(&args.name, loss)).await)
        }
        // CMD never ran, so that there is no shortest hold to keep either.
        Err(failure) => Err(give_back(&client, lease.detach(), failure).await),
    };
    match &result {
        Err(failure) => close_after(client, failure).await,
        Ok(_) => close(client).await,
    }
    result
}

/// Gives back what was not used, and says so where that fails.
pub(super) async fn give_back(client: &Client, ticket: Ticket, failure: Failure) -> Failure {
    if let Ok(Ok(_)) = timeout(TO_RELEASE, client.release(&ticket)).await {
        return failure;
    }
    let hint = match ticket.ttl() {
        Ttl::Never => how_to_break(ticket.name(), ticket.fence()),
        Ttl::For(_) => "the lease could not be given back, and ends by itself".to_owned(),
    };
    Failure { hint, ..failure }
}

/// The claim that the arguments describe.
pub(super) fn claim(
    client: &Client,
    name: &leasehold::Name,
    args: &ClaimArgs,
    max_hold: Option<Duration>,
) -> Result<Lock, Failure> {
    if args.ttl == Ttl::Never {
        output::say("a lease that never expires blocks everybody if its holder dies, until `leasehold break` frees it");
    }
    // It could not be renewed beyond that anyway, and the margin is a share of the ttl.
    let ttl = max_hold.map_or(args.ttl, |span| args.ttl.min(Ttl::For(span)));
    // What was waited for lasts a claim window only, until it is renewed: have that done first.
    let mut lock = client.lock(name.clone())?.ttl(ttl).confirmed(true);
    if let Some(owner) = &args.owner {
        lock = lock.owner(owner);
    }
    if let Some(reason) = &args.reason {
        lock = lock.reason(reason);
    }
    Ok(lock)
}

/// Starts CMD and sees it through.
pub(super) async fn guard(
    watch: &mut Watch<'_>,
    signals: &mut Signals,
    store: &Chosen,
    command: &[OsString],
) -> Result<Outcome, Failure> {
    let (program, arguments) = command.split_first().ok_or_else(|| Failure::usage("CMD is missing", ""))?;
    let lease = watch.lease;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LEASEHOLD_NAME", lease.name().as_str())
        .env("LEASEHOLD_FENCE", lease.fence().map(|fence| fence.to_string()).unwrap_or_default())
        .env("LEASEHOLD_TICKET", lease.share(Rights::RENEW).encode());
    if let Some(url) = &store.for_child {
        command.env("LEASEHOLD_STORE", url);
    }
    let mut terminal = Terminal::open();
    let mut child = match Child::spawn(command, &mut terminal, signals, watch.due()) {
        Ok(child) => child,
        Err(error) if Child::was_too_late(&error) => return Ok(Outcome::NotStarted { loss: watch.loss() }),
        Err(error) => return Err(Failure::not_started(program, &error)),
    };
    let outcome = supervise(&mut child, &mut terminal, signals, watch).await;
    terminal.take_back();
    if let Outcome::Stopped { .. } = outcome {
        terminal.restore();
    }
    Ok(outcome)
}

/// On the clock of every deadline.
pub(super) fn timer() -> Result<Box<dyn Timer>, Failure> {
    SystemClock.timer().map_err(|error| Failure::system("the system gives no timer", error))
}

/// Listens for what may come while we wait.
pub(super) fn listen() -> Result<Signals, Failure> {
    Signals::listen().map_err(|error| Failure::system("signals cannot be listened for", error))
}

/// Gives the lease back; says how it was lost, if it was.
async fn release(client: &Client, lease: Lease, signals: &mut Signals) -> Result<Option<Loss>, Failure> {
    let lost = lease.loss();
    let lasting = (lease.ttl() == Ttl::Never).then(|| lease.share(Rights::RENEW));
    let why = match timeout(TO_RELEASE, lease.release()).await {
        Ok(Ok(true)) => return Ok(None),
        Ok(Ok(false)) => return Ok(Some(lost.unwrap_or(Loss::Expired))),
        Ok(Err(Error::Lost { loss, .. })) => return Ok(Some(loss)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the store gave no answer in time".to_owned(),
    };
    match lasting {
        None => {
            output::say(format_args!("the lease could not be released, and ends by itself: {why}"));
            Ok(None)
        }
        Some(ticket) => insist(client, &ticket, &why, signals).await.map(|()| None),
    }
}

/// A lease that never expires blocks everybody until it is released: the keeper goes on trying, and we wait for it.
async fn insist(client: &Client, ticket: &Ticket, why: &str, signals: &mut Signals) -> Result<(), Failure> {
    let name = ticket.name();
    output::say(format_args!(
        "the lease on {name} never expires, and could not be released yet ({why}): trying for {} more",
        output::span(TO_INSIST)
    ));
    select! {
        _ = timeout(TO_INSIST, client.clone().close()) => {}
        _ = signals.next() => {}
    }
    match timeout(Duration::from_secs(1), client.check(ticket)).await {
        Ok(Err(Error::Lost { .. })) => Ok(()),
        _ => Err(Failure {
            exit: Exit::Unavailable,
            kind: leasehold::ErrorKind::Unavailable,
            message: format!("the lease on {name} never expires, and could not be released: {why}"),
            hint: how_to_break(name, ticket.fence()),
        }),
    }
}

fn how_to_break(name: &leasehold::Name, fence: Option<u64>) -> String {
    let fence = fence.map_or("N".to_owned(), |fence| fence.to_string());
    let name = name.as_str();
    let quoted = if name.contains(|c: char| !c.is_alphanumeric() && !"/._:@-".contains(c)) {
        format!("'{}'", name.replace('\'', r"'\''"))
    } else {
        name.to_owned()
    };
    format!("it is held for ever unless you say `leasehold break {quoted} --fence {fence}` once the store is back")
}

/// Waits for what the library still has to tell the store: a place in the queue to give up, say.
pub(super) async fn close(client: Client) {
    let _ = timeout(TO_RELEASE, client.close()).await;
}

/// The same after an error: a store that is away will not hear it either.
pub(super) async fn close_after(client: Client, failure: &Failure) {
    let patience = if failure.exit == Exit::Unavailable { Duration::from_millis(200) } else { TO_RELEASE };
    let _ = timeout(patience, client.close()).await;
}

fn outlived(name: &leasehold::Name, loss: Loss) -> Failure {
    Failure::lost(
        format!("the lease on {name} was lost while the command ran: {loss}"),
        "what the command did last may have overlapped with another holder",
    )
}

/// The lease ran out, or nearly so, before CMD could be started.
pub(super) fn not_started(name: &leasehold::Name, loss: Option<Loss>) -> Failure {
    let loss = loss.map_or_else(|| "too little of it is left".to_owned(), |loss| loss.to_string());
    Failure::lost(
        format!("the lease on {name} is lost: {loss}; the command was not started"),
        "the machine or this process was paused for too long; try again, or give a longer --ttl",
    )
}

/// CMD was ended, or nearly so.
pub(super) fn stopped(name: &leasehold::Name, loss: Option<Loss>, gone: bool) -> Failure {
    let loss = loss.map_or_else(|| "it could not be renewed in time".to_owned(), |loss| loss.to_string());
    let end = if gone { "the command was ended" } else { "the command was killed, but has not ended yet" };
    Failure::lost(
        format!("the lease on {name} is lost: {loss}; {end}"),
        "another may hold the name now; see it with `leasehold status`",
    )
}

/// What is kept of the validity to end CMD in.
pub(super) fn grace(given: Option<Duration>, ttl: Ttl, max_hold: Option<Duration>) -> Result<Duration, Failure> {
    const DEFAULT: Duration = Duration::from_secs(5);
    let third = match ttl {
        Ttl::For(ttl) => ttl / 3,
        Ttl::Never => Duration::MAX,
    };
    let Some(grace) = given else {
        return Ok(DEFAULT.min(third).min(max_hold.map_or(Duration::MAX, |span| span / 3)));
    };
    if grace > third {
        return Err(Failure::usage(
            format!("--grace {} is longer than a third of the ttl", output::span(grace)),
            format!("say at most {}, or give a longer --ttl", output::span(third)),
        ));
    }
    if let Some(max_hold) = max_hold.filter(|max_hold| grace >= *max_hold) {
        return Err(Failure::usage(
            format!("--grace {} leaves nothing of --max-hold {}", output::span(grace), output::span(max_hold)),
            "give a shorter --grace or a longer --max-hold",
        ));
    }
    Ok(grace)
}

fn check_holds(min_hold: Option<Duration>, max_hold: Option<Duration>) -> Result<(), Failure> {
    match (min_hold, max_hold) {
        (Some(min), Some(max)) if min > max => Err(Failure::usage(
            format!("--min-hold {} is longer than --max-hold {}", output::span(min), output::span(max)),
            "the lease cannot last longer than it may be held",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn the_default_grace_is_five_seconds_or_a_third_of_the_ttl() {
        assert_eq!(grace(None, Ttl::For(secs(30)), None).unwrap(), secs(5));
        assert_eq!(grace(None, Ttl::For(secs(6)), None).unwrap(), secs(2));
        assert_eq!(grace(None, Ttl::Never, None).unwrap(), secs(5));
        assert_eq!(grace(None, Ttl::For(secs(30)), Some(secs(3))).unwrap(), secs(1));
    }

    #[test]
    fn a_grace_that_leaves_too_little_is_refused() {
        assert_eq!(grace(Some(secs(10)), Ttl::For(secs(30)), None).unwrap(), secs(10));
        assert_eq!(grace(Some(secs(11)), Ttl::For(secs(30)), None).unwrap_err().exit, Exit::Usage);
        assert_eq!(grace(Some(secs(5)), Ttl::For(secs(30)), Some(secs(5))).unwrap_err().exit, Exit::Usage);
    }

    #[tokio::test]
    async fn past_the_deadline_the_command_is_not_started() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("leases.db").display());
        let store = Chosen::new(&args::Common { store: Some(url.into()), json: false }).unwrap();
        let client = store.open().await.unwrap();
        let ran = dir.path().join("ran");
        let command = ["touch".into(), ran.clone().into_os_string()];
        for (pause, starts) in [(0, true), (300, false)] {
            let lock = client.lock("x").unwrap().ttl(Duration::from_millis(300)).keep_alive(false);
            let lock = if starts { lock.ttl(secs(30)) } else { lock };
            let lease = lock.acquire().await.unwrap();
            // As a process that is stopped between the grant and the start.
            std::thread::sleep(Duration::from_millis(pause));
            let grace = Duration::from_millis(10);
            let mut watch = Watch { timer: timer().unwrap(), lease: &lease, on_lost: args::OnLost::Stop, grace };
            let outcome = guard(&mut watch, &mut listen().unwrap(), &store, &command).await.unwrap();
            assert_eq!(matches!(outcome, Outcome::Ended { .. }), starts, "{outcome:?}");
            assert_eq!(matches!(outcome, Outcome::NotStarted { .. }), !starts, "{outcome:?}");
            assert_eq!(ran.exists(), starts);
            let _ = std::fs::remove_file(&ran);
            let _ = lease.release().await;
        }
        assert_eq!(not_started(&"x".parse().unwrap(), None).exit, Exit::Lost);
    }

    #[test]
    fn a_shortest_hold_beyond_the_longest_is_refused() {
        assert!(check_holds(Some(secs(2)), Some(secs(1))).is_err());
        assert!(check_holds(Some(secs(1)), Some(secs(1))).is_ok());
    }
}
