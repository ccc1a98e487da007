//! `leasehold status NAME`

use super::{
    run::close,
    view::{Document, page},
};
use crate::{args, exit::Exit, failure::Failure, output::Paint, start::Context, store::Chosen};

pub(crate) async fn run(context: &Context, args: &args::Status) -> Result<Exit, Failure> {
    let client = Chosen::new(&context.common)?.open().await?;
    let view = client.inspect(&args.name).await;
    close(client).await;
    let view = view?;
    context.output.answer(&Document::from(&view), || page(&view, Paint::stdout()))?;
    Ok(Exit::Done)
}
