//! `leasehold list [PREFIX]`

use super::{
    run::close,
    view::{Document, table},
};
use crate::{
    args,
    exit::Exit,
    failure::Failure,
    output::{Paint, say},
    start::Context,
    store::Chosen,
};

pub(crate) async fn run(context: &Context, args: &args::List) -> Result<Exit, Failure> {
    let client = Chosen::new(&context.common)?.open().await?;
    let views = client.list(&args.prefix).await;
    close(client).await;
    let mut views = views?;
    views.sort_by(|a, b| a.name.cmp(&b.name));
    if context.output.is_json() {
        for view in &views {
            context.output.answer(&Document::from(view), String::new)?;
        }
    } else if views.is_empty() {
        say("nothing is held or waited for");
    } else {
        context.output.answer(&(), || table(&views, Paint::stdout()))?;
    }
    Ok(Exit::Done)
}
