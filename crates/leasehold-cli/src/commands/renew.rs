//! `leasehold renew`

use leasehold::Validity;
use serde::Serialize;

use super::run::close;
use crate::{
    args::TicketArgs,
    exit::Exit,
    failure::Failure,
    output::{millis, span},
    start::Context,
    store::Chosen,
    ticket,
};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub(super) name: &'a str,
    pub(super) fence: Option<u64>,
    pub(super) valid_ms: Option<u64>,
}

pub(crate) async fn run(context: &Context, args: &TicketArgs) -> Result<Exit, Failure> {
    let store = Chosen::new(&context.common)?;
    let ticket = ticket::read(args)?;
    let client = store.open().await?;
    let renewed = client.renew(&ticket).await;
    close(client).await;
    let valid = renewed?;
    let document = Document { name: ticket.name().as_str(), fence: ticket.fence(), valid_ms: valid_ms(valid) };
    context.output.answer(&document, || format!("{} is renewed: {} left", ticket.name(), left(valid)))?;
    Ok(Exit::Done)
}

/// As the documents give it: `null` if it never expires.
pub(super) fn valid_ms(valid: Validity) -> Option<u64> {
    match valid {
        Validity::For(left) => Some(millis(left)),
        _ => None,
    }
}

/// As people read it.
pub(super) fn left(valid: Validity) -> String {
    match valid {
        Validity::For(left) => span(left),
        _ => "for ever".to_owned(),
    }
}
