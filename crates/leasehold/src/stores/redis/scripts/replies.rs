//! From what a script answers to the engine's reply.

use std::{sync::Arc, time::Duration};

use super::{super::resp::Reply as Answer, Kind};
use crate::{
    Error,
    engine::{
        BreakReply, ClaimReply, Grant, HandOverReply, HoldReply, LeaveReply, News, Queued, ReleaseReply, Reply, Span,
    },
    error::Loss,
    id::AttemptId,
    name::Name,
    view::{HolderView, LeaseView, Phase, WaiterView},
};

/// What a step came to.
pub(crate) fn reply(kind: Kind, answer: &Answer) -> Result<Reply, Error> {
    parse(kind, answer).ok_or_else(|| Error::internal(format!("the script {kind:?} answered {answer:?}")))
}

fn parse(kind: Kind, answer: &Answer) -> Option<Reply> {
    let items = answer.items()?;
    let word = items.first()?.text()?;
    let rest = &items[1..];
    Some(match kind {
        Kind::Claim => Reply::Claim(match (word, rest) {
            ("granted", [_, id, fence, tenure, ttl, left, offered]) => ClaimReply::Granted(Grant {
                id: AttemptId::from_secret_hex(id.text()?)?,
                fence: count(fence)?,
                tenure: count(tenure)?,
                ttl: time(ttl)?.map_or(Span::NEVER, Span::from),
                left: time(left)?,
                offered: offered.int()? == 1,
            }),
            ("queued", [_, position, wake_in, holder]) => ClaimReply::Queued(Queued {
                position: count(position)?,
                wake_in: time(wake_in)?,
                holder: if *holder == Answer::Nil { None } else { Some(holder_view(holder)?) },
            }),
            ("held", [holder]) => ClaimReply::Held(holder_view(holder)?),
            ("gone", []) => ClaimReply::Gone,
            ("mismatch", [capacity]) => ClaimReply::Mismatch { capacity: count(capacity)? },
            _ => return None,
        }),
        Kind::Renew | Kind::Check => Reply::Hold(match (word, rest) {
            ("held", [left]) => HoldReply::Held { left: time(left)? },
            ("lost", [why]) => HoldReply::Lost(loss(why)?),
            _ => return None,
        }),
        Kind::Release => Reply::Release(match (word, rest) {
            ("released", []) => ReleaseReply::Released,
            ("already", []) => ReleaseReply::Already,
            ("lost", [why]) => ReleaseReply::NotHeld(loss(why)?),
            _ => return None,
        }),
        Kind::Leave => Reply::Leave(match word {
            "waiting" => LeaveReply::Waiting,
            "holding" => LeaveReply::Holding,
            "absent" => LeaveReply::Absent,
            _ => return None,
        }),
        Kind::HandOver => Reply::HandOver(match (word, rest) {
            ("done", [fence, left]) => HandOverReply::Done { fence: count(fence)?, left: time(left)? },
            ("lost", [why]) => HandOverReply::Lost(loss(why)?),
            _ => return None,
        }),
        Kind::Break => Reply::Break(match (word, rest) {
            ("broken", [left]) => BreakReply::Broken { free_in: time(left)?.unwrap_or_default() },
            ("newer", [fence]) => BreakReply::Newer { fence: count(fence)? },
            ("absent", []) => BreakReply::NotHeld,
            _ => return None,
        }),
        Kind::Silence => Reply::Silence,
        Kind::Inspect => return None,
    })
}

/// What anyone may see of a name.
pub(crate) fn view(name: &Name, answer: &Answer) -> Result<LeaseView, Error> {
    parse_view(name, answer).ok_or_else(|| Error::internal(format!("a script showed {answer:?}")))
}

fn parse_view(name: &Name, answer: &Answer) -> Option<LeaseView> {
    let [_, holders, waiters] = answer.items()? else { return None };
    let waiter = |(index, waiter): (usize, &Answer)| {
        let [who, waiting, silent] = waiter.items()? else { return None };
        let (owner, reason) = people(who.text()?)?;
        let position = u32::try_from(index + 1).ok()?;
        Some(WaiterView { position, owner, reason, waiting: time(waiting)??, silent: silent.int()? == 1 })
    };
    Some(LeaseView {
        name: name.clone(),
        holders: holders.items()?.iter().map(holder_view).collect::<Option<_>>()?,
        queue: Some(waiters.items()?.iter().enumerate().map(waiter).collect::<Option<_>>()?),
    })
}

/// A stranger has no fence, and is known by its value alone.
fn holder_view(answer: &Answer) -> Option<HolderView> {
    let [fence, who, at, left, phase] = answer.items()? else { return None };
    let fence = u64::try_from(fence.int()?).ok();
    let (owner, reason) = match fence {
        Some(_) => people(who.text()?)?,
        None => (String::from_utf8_lossy(who.bytes()?).into(), None),
    };
    let phase = match phase.text()? {
        "offered" => Phase::Offered,
        "held" => Phase::Held,
        "broken" => Phase::Broken,
        "lingering" => Phase::Lingering,
        _ => return None,
    };
    Some(HolderView { fence, owner, reason, acquired_at_ms: count(at)?, expires_in: time(left)?, phase })
}

/// Reads what `arguments` wrote of a [`Who`](crate::engine::Who).
fn people(who: &str) -> Option<(Arc<str>, Option<Arc<str>>)> {
    let (length, rest) = who.split_once(':')?;
    let length: usize = length.parse().ok()?;
    let (owner, reason) = (rest.get(..length)?, rest.get(length..)?);
    Some((owner.into(), reason.strip_prefix('+').map(Into::into)))
}

/// A message: what it says, to which attempt, about which lock key.
pub(crate) fn news(payload: &str) -> Option<(News, AttemptId, &str)> {
    let mut parts = payload.splitn(4, ' ');
    let (kind, id, number, rest) = (parts.next()?, parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
    let id = AttemptId::from_secret_hex(id)?;
    match kind {
        "offer" => {
            // The server's time then, and how long the offer lasts.
            let lock = rest.splitn(3, ' ').nth(2)?;
            Some((News::Offer { fence: number }, id, lock))
        }
        "next" => Some((News::Next { in_ms: number }, id, rest)),
        "broken" => Some((News::Broken, id, rest)),
        _ => None,
    }
}

fn count<T: TryFrom<i64>>(answer: &Answer) -> Option<T> {
    T::try_from(answer.int()?).ok()
}

/// Microseconds; -1 has no end.
#[expect(clippy::option_option, reason = "no answer, and no end")]
fn time(answer: &Answer) -> Option<Option<Duration>> {
    match answer.int()? {
        -1 => Some(None),
        micros => Some(Some(Duration::from_micros(u64::try_from(micros).ok()?))),
    }
}

fn loss(answer: &Answer) -> Option<Loss> {
    Some(match answer.text()? {
        "expired" => Loss::Expired,
        "broken" => Loss::Broken,
        "overtaken" => Loss::Overtaken,
        "released" => Loss::Released,
        "capped" => Loss::Capped,
        _ => return None,
    })
}
