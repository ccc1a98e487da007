//! From a command to what its script is given.

use crate::{
    engine::{Command, Span, Who},
    id::ClientId,
};

/// In the order that the script names in its first line. What is absent is empty, what never ends is -1.
pub(crate) fn arguments(command: &Command) -> Vec<String> {
    match command {
        Command::Claim(claim) => vec![
            claim.id.to_secret_hex(),
            claim.permits.to_string(),
            claim.capacity.to_string(),
            span(Some(claim.ttl)),
            span(claim.max_hold),
            claim.client.map(client).unwrap_or_default(),
            maybe(claim.told),
            span(claim.queue.map(|queue| queue.waiter_ttl)),
            span(claim.queue.map(|queue| queue.window)),
            claim.work.as_deref().unwrap_or_default().to_owned(),
            who(&claim.who),
        ],
        Command::Renew(renew) => {
            vec![renew.id.to_secret_hex(), renew.fence.to_string(), maybe(renew.tenure), maybe(renew.not_after_ms)]
        }
        Command::Check(check) => vec![check.id.to_secret_hex(), check.fence.to_string()],
        Command::Release(release) => {
            vec![release.id.to_secret_hex(), maybe(release.tenure), span(release.linger), span(release.remember)]
        }
        Command::Leave(leave) => vec![leave.id.to_secret_hex(), span(leave.remember)],
        Command::HandOver(hand_over) => vec![
            hand_over.id.to_secret_hex(),
            hand_over.fence.to_string(),
            maybe(hand_over.tenure),
            hand_over.to.to_secret_hex(),
        ],
        Command::Break(request) => vec![request.fence.to_string(), u8::from(request.now).to_string()],
        Command::Silence(silence) => vec![client(silence.client), maybe(silence.offer)],
    }
}

/// Digits of a fixed number, since a script takes it off the end of a string.
pub(crate) fn client(client: ClientId) -> String {
    format!("{:016x}", client.bits())
}

fn maybe(number: Option<impl ToString>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

fn span(span: Option<Span>) -> String {
    match span.map(Span::duration) {
        None => String::new(),
        Some(None) => "-1".to_owned(),
        Some(Some(span)) => span.as_millis().to_string(),
    }
}

/// The owner's length, the owner, and the reason after a `+`.
fn who(who: &Who) -> String {
    let reason = who.reason.as_ref().map(|reason| format!("+{reason}")).unwrap_or_default();
    format!("{}:{}{reason}", who.owner.len(), who.owner)
}
