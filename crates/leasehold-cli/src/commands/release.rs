//! `leasehold release`

use serde::Serialize;

use super::run::close;
use crate::{args::TicketArgs, exit::Exit, failure::Failure, start::Context, store::Chosen, ticket};

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    released: bool,
}

pub(crate) async fn run(context: &Context, args: &TicketArgs) -> Result<Exit, Failure> {
    let store = Chosen::new(&context.common)?;
    let ticket = ticket::read(args)?;
    let client = store.open().await?;
    let released = client.release(&ticket).await;
    close(client).await;
    let released = released?;
    let document = Document { name: ticket.name().as_str(), released };
    context.output.answer(&document, || {
        if released {
            format!("{} is released", ticket.name())
        } else {
            format!("{} was no longer held by this ticket", ticket.name())
        }
    })?;
    Ok(if released { Exit::Done } else { Exit::Lost })
}
