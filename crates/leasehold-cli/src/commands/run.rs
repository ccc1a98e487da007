//! `leasehold run NAME -- CMD…`

use std::{ffi::OsString, process::Command, time::Duration};

use leasehold::{
    Client, Lease, Lock, Loss, Rights, Ttl,
    clock::{Clock, Moment, SystemClock, Timer},
};
use tokio::time::timeout;

use crate::{
    args::{self, ClaimArgs},
    child::{Child, Outcome, Signals, Terminal, Watch, now, supervise},
    exit::Exit,
    failure::Failure,
    output,
    start::Context,
    store::Chosen,
    waiting::{self, Waited},
};

/// How long the store may take to hear that CMD is done. After that, the lease runs out by itself.
const TO_RELEASE: Duration = Duration::from_secs(5);

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

    let latest = args.max_hold.map_or(Moment::NEVER, |span| now() + span);
    let mut watch = Watch { timer, lease: &lease, on_lost: args.on_lost, grace, latest };
    let outcome = guard(&mut watch, &mut signals, &store, &args.command).await;
    let result = match outcome {
        Ok(Outcome::Ended { exit, outlived: before }) => {
            // CMD's own word counts, unless it says that all is well: it may have worked beside another.
            let after = release(lease).await;
            match before.or(after) {
                Some(loss) if exit == Exit::Command(0) => Err(outlived(&args.name, loss)),
                Some(loss) => {
                    output::say(outlived(&args.name, loss).message);
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
            }
            Err(failure)
        }
        Err(failure) => {
            // CMD never ran, so that there is no shortest hold to keep either.
            let ticket = lease.detach();
            let _ = timeout(TO_RELEASE, client.release(&ticket)).await;
            Err(failure)
        }
    };
    close(client).await;
    result
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
    let mut child =
        Child::spawn(command, &mut terminal, signals).map_err(|error| Failure::not_started(program, &error))?;
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
async fn release(lease: Lease) -> Option<Loss> {
    let lost = lease.loss();
    match timeout(TO_RELEASE, lease.release()).await {
        Ok(Ok(true)) => None,
        Ok(Ok(false)) => Some(lost.unwrap_or(Loss::Expired)),
        Ok(Err(leasehold::Error::Lost { loss, .. })) => Some(loss),
        Ok(Err(error)) => {
            output::say(format_args!("the lease could not be released, and ends by itself: {error}"));
            None
        }
        Err(_) => {
            output::say("the lease could not be released in time, and ends by itself");
            None
        }
    }
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

    #[test]
    fn a_shortest_hold_beyond_the_longest_is_refused() {
        assert!(check_holds(Some(secs(2)), Some(secs(1))).is_err());
        assert!(check_holds(Some(secs(1)), Some(secs(1))).is_ok());
    }
}
