//! `leasehold break NAME --fence N`

use std::time::Duration;

use leasehold::engine::BreakReply;
use serde::Serialize;

use super::run::close;
use crate::{
    args,
    exit::Exit,
    failure::Failure,
    output::{millis, say, span},
    start::Context,
    store::Chosen,
};

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    fence: u64,
    broken: bool,
    free_in_ms: u64,
}

pub(crate) async fn run(context: &Context, args: &args::Break) -> Result<Exit, Failure> {
    let client = Chosen::new(&context.common)?.open().await?;
    let reply = client.break_lease(&args.name, args.fence, args.now).await;
    close(client).await;
    let (name, fence) = (&args.name, args.fence);
    match reply? {
        BreakReply::Broken { free_in } => {
            if args.now {
                say("the name is free at once: its holder may still be at work, and is told at its next renewal");
            }
            let document = Document { name: name.as_str(), fence, broken: true, free_in_ms: millis(free_in) };
            context.output.answer(&document, || match free_in {
                Duration::ZERO => format!("{name} is free: holder {fence} is broken"),
                free_in => format!("holder {fence} may not renew {name} any more: free in {}", span(free_in)),
            })?;
            Ok(Exit::Done)
        }
        BreakReply::Newer { fence: newer } => Err(Failure::lost(
            format!("another holds {name} by now, with fence {newer}: it is untouched"),
            format!("holder {fence} is gone; look again with `leasehold status`"),
        )),
        BreakReply::NotHeld => Err(Failure::lost(
            format!("nobody holds {name} with fence {fence}"),
            "look who holds it with `leasehold status`",
        )),
    }
}
