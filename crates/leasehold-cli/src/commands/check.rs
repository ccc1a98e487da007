//! `leasehold check`

use leasehold::{Error, Validity};
use serde::Serialize;

use super::{
    renew::{left, valid_ms},
    run::close,
};
use crate::{args::TicketArgs, exit::Exit, failure::Failure, start::Context, store::Chosen, ticket};

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    held: bool,
    valid_ms: Option<u64>,
}

pub(crate) async fn run(context: &Context, args: &TicketArgs) -> Result<Exit, Failure> {
    let store = Chosen::new(&context.common)?;
    let ticket = ticket::read(args)?;
    let client = store.open().await?;
    let checked = client.check(&ticket).await;
    close(client).await;
    let name = ticket.name();
    let (document, text, exit) = match checked {
        // What is left is what may be relied on: with nothing left, it may not be.
        Ok(valid) if valid != Validity::For(std::time::Duration::ZERO) => (
            Document { name: name.as_str(), held: true, valid_ms: valid_ms(valid) },
            format!("{name} is held: {} left", left(valid)),
            Exit::Done,
        ),
        Ok(_) => not_held(name, leasehold::Loss::Expired),
        Err(Error::Lost { loss, .. }) => not_held(name, loss),
        Err(error) => return Err(error.into()),
    };
    context.output.answer(&document, || text)?;
    Ok(exit)
}

fn not_held(name: &leasehold::Name, loss: leasehold::Loss) -> (Document<'_>, String, Exit) {
    let document = Document { name: name.as_str(), held: false, valid_ms: None };
    (document, format!("{name} is no longer held by this ticket: {loss}"), Exit::Lost)
}
