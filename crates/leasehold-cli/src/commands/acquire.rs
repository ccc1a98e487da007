//! `leasehold acquire NAME`

use leasehold::{Lease, Ttl};
use serde::Serialize;

use super::run::{claim, close, close_after, give_back, listen};
use crate::{
    args,
    exit::Exit,
    failure::Failure,
    output::{self, millis},
    start::Context,
    store::Chosen,
    waiting::{self, Waited},
};

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    fence: Option<u64>,
    ticket: &'a str,
    ttl_ms: Option<u64>,
    valid_ms: Option<u64>,
    attempts: u32,
    waited_ms: u64,
}

pub(crate) async fn run(context: &Context, args: args::Acquire) -> Result<Exit, Failure> {
    let store = Chosen::new(&context.common)?;
    let mut signals = listen()?;
    let client = store.open().await?;
    let mut lock = claim(&client, &args.name, &args.claim, None)?;
    if let Some(work) = &args.attach {
        lock = lock.work(work);
    }
    let result = match waiting::acquire(lock, &args.claim, &mut signals, &args.name).await {
        Ok(Waited::Granted(lease)) => hand_out(context, lease, &client).await.map(|()| Exit::Done),
        Ok(Waited::Interrupted(signal)) => Ok(Exit::Signal(signal.as_raw())),
        Err(failure) => {
            close_after(client, &failure).await;
            return Err(failure);
        }
    };
    close(client).await;
    result
}

/// Prints the ticket. A lease that nobody knows the ticket of is of no use to anyone: then it is given back.
async fn hand_out(context: &Context, lease: Lease, client: &leasehold::Client) -> Result<(), Failure> {
    let (attempts, waited, valid) = (lease.attempts(), lease.waited(), lease.remaining());
    let ticket = lease.detach();
    let text = ticket.encode();
    let document = Document {
        name: ticket.name().as_str(),
        fence: ticket.fence(),
        ticket: &text,
        ttl_ms: match ticket.ttl() {
            Ttl::For(ttl) => Some(millis(ttl)),
            Ttl::Never => None,
        },
        valid_ms: valid.map(millis),
        attempts,
        waited_ms: millis(waited),
    };
    if let Err(failure) = context.output.deliver(&document, || text.clone()) {
        let failure = Failure { hint: "the lease was given back; look at where stdout goes".into(), ..failure };
        return Err(give_back(client, ticket, failure).await);
    }
    if !context.output.is_json() {
        let fence = ticket.fence().map(|fence| format!(" with fence {fence}")).unwrap_or_default();
        let valid =
            valid.map_or("never expires".to_owned(), |left| format!("ends in {} unless renewed", output::span(left)));
        output::say(format_args!("{} is yours{fence}; it {valid}", ticket.name()));
    }
    Ok(())
}
