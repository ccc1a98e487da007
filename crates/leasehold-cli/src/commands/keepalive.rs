//! `leasehold keepalive [-- CMD…]`

use leasehold::Lease;
use rustix::process::Signal;
use tokio::select;

use super::{
    renew::Document,
    run::{close, grace, guard, listen, not_started, stopped, timer},
};
use crate::{
    args::{self, OnLost},
    child::{Outcome, Signals, Watch},
    exit::Exit,
    failure::Failure,
    output::{millis, say},
    start::Context,
    store::Chosen,
    ticket,
};

pub(crate) async fn run(context: &Context, args: args::Keepalive) -> Result<Exit, Failure> {
    let store = Chosen::new(&context.common)?;
    let ticket = ticket::read(&args.ticket)?;
    let grace = grace(args.grace, ticket.ttl(), None)?;
    let mut signals = listen()?;
    let client = store.open().await?;
    let lease = match client.accept(&ticket).await {
        Ok(lease) => lease,
        Err(error) => {
            close(client).await;
            return Err(error.into());
        }
    };
    let result = if args.command.is_empty() {
        until_stopped(context, &lease, &mut signals).await
    } else {
        let mut watch = Watch { timer: timer()?, lease: &lease, on_lost: OnLost::Stop, grace };
        match guard(&mut watch, &mut signals, &store, &args.command).await {
            Ok(Outcome::Ended { exit, .. }) => Ok(exit),
            Ok(Outcome::Stopped { loss, gone }) => Err(stopped(lease.name(), loss, gone)),
            Ok(Outcome::NotStarted { loss }) => Err(not_started(lease.name(), loss)),
            Err(failure) => Err(failure),
        }
    };
    // The lease stays as it is: it is for its first owner to release it.
    drop(lease);
    close(client).await;
    result
}

async fn until_stopped(context: &Context, lease: &Lease, signals: &mut Signals) -> Result<Exit, Failure> {
    if context.output.is_json() {
        let valid_ms = lease.remaining().map(millis);
        let document = Document { name: lease.name().as_str(), fence: lease.fence(), valid_ms };
        context.output.answer(&document, String::new)?;
    } else {
        say(format_args!("keeping the lease on {} alive", lease.name()));
    }
    select! {
        biased;
        loss = lease.lost() => Err(Failure::lost(
            format!("the lease on {} is no longer held: {loss}", lease.name()),
            "stop the work that it protected; another may hold the name now",
        )),
        signal = signals.next() => match signal {
            Signal::INT | Signal::TERM => Ok(Exit::Done),
            signal => Ok(Exit::Signal(signal.as_raw())),
        },
    }
}
