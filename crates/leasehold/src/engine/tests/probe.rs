//! What would happen: steps that are tried on a copy after each real one.

use super::{Verdict, clock::At, ensure, number, watch::Seen, watch::Watch};
use crate::{
    engine::{
        Break, BreakReply, Check, ClaimReply, Command, HandOver, HandOverReply, HoldReply, Leave, LeaveReply, Record,
        Release, ReleaseReply, Renew, Reply, Silence, Span, apply,
    },
    id::{AttemptId, ClientId},
    view::Phase,
};

/// How many earlier leases are tried.
const EARLIER: usize = 4;

pub(super) fn probe(watch: &Watch, seen: &Seen) -> Verdict {
    again(seen)?;
    // A client that nobody knows is passed over: only time does its work.
    let mut rested = seen.after.clone();
    apply(&mut rested, &Command::Silence(Silence { client: ClientId::from_bits(u64::MAX), offer: None }), &seen.at);
    look(watch, seen)?;
    strangers(watch, &rested, seen.at)?;
    refused(watch, &rested, seen.at)?;
    relied_on(watch, &rested, seen.at)?;
    expired(seen.after, seen.at)
}

/// The same step arrives twice at once.
fn again(seen: &Seen) -> Verdict {
    let mut record = seen.after.clone();
    let second = apply(&mut record, seen.command, &seen.at);
    ensure!(record == *seen.after, "twice: {:?} changed the record once more", seen.command);
    ensure!(second.wakes.is_empty(), "twice: {:?} woke somebody once more", seen.command);
    let alike = match (&seen.applied.reply, &second.reply) {
        (Reply::Release(ReleaseReply::Released), Reply::Release(reply)) => match seen.command {
            Command::Release(Release { remember: None, linger: None, .. }) => *reply != ReleaseReply::Released,
            _ => matches!(reply, ReleaseReply::Already | ReleaseReply::NotHeld(_)),
        },
        (Reply::Release(ReleaseReply::NotHeld(_)), Reply::Release(ReleaseReply::NotHeld(_)))
        | (Reply::Leave(_), Reply::Leave(LeaveReply::Absent))
        | (Reply::HandOver(HandOverReply::Lost(_)), Reply::HandOver(HandOverReply::Lost(_)))
        // Why it is lost depends on who was granted it since, in the same step.
        | (Reply::Hold(HoldReply::Lost(_)), Reply::Hold(HoldReply::Lost(_)))
        | (
            Reply::Break(BreakReply::NotHeld | BreakReply::Newer { .. }),
            Reply::Break(BreakReply::NotHeld | BreakReply::Newer { .. }),
        ) => true,
        (Reply::Break(BreakReply::Broken { .. }), Reply::Break(reply)) if is_now(seen.command) => {
            matches!(reply, BreakReply::NotHeld | BreakReply::Newer { .. })
        }
        (first, second) => first == second,
    };
    ensure!(alike, "twice: {:?} was answered {:?}, then {:?}", seen.command, seen.applied.reply, second.reply);
    Ok(())
}

fn is_now(command: &Command) -> bool {
    matches!(command, Command::Break(Break { now: true, .. }))
}

/// To ask changes nothing.
fn look(watch: &Watch, seen: &Seen) -> Verdict {
    // Later too, when something has expired.
    let later = At { now: seen.at.now + 200_000, ..seen.at };
    for (id, fence) in watch.leases.iter().rev().take(EARLIER) {
        for at in [seen.at, later] {
            let mut record = seen.after.clone();
            let applied = apply(&mut record, &Command::Check(Check { id: *id, fence: *fence }), &at);
            let quiet = record == *seen.after && !applied.changed && applied.wakes.is_empty();
            ensure!(quiet, "check: it changed something");
        }
    }
    Ok(())
}

/// I7: whoever does not own it changes neither who holds nor who waits.
fn strangers(watch: &Watch, rested: &Record, at: At) -> Verdict {
    let stranger = AttemptId::from_bits(u128::MAX);
    let nobody = AttemptId::from_bits(u128::MAX - 1);
    let gone = |id: &AttemptId| rested.holder(*id).is_none() && rested.queue.iter().all(|waiter| waiter.id != *id);
    let mut attempts = vec![(stranger, rested.fence)];
    attempts.extend(watch.leases.iter().rev().filter(|(id, _)| gone(id)).take(EARLIER));
    let mut commands: Vec<Command> = Vec::new();
    for (id, fence) in attempts {
        let remember = Some(Span::from_millis(10));
        commands.extend([
            Renew { id, fence, tenure: None, not_after_ms: None }.into(),
            Release { id, tenure: None, linger: None, remember }.into(),
            Leave { id, remember: None }.into(),
            HandOver { id, fence, tenure: None, to: nobody }.into(),
        ]);
    }
    for holder in &rested.holders {
        let (id, fence, tenure) = (holder.id, holder.fence, Some(holder.tenure + 1));
        commands.extend([
            Renew { id, fence: fence + 1, tenure: None, not_after_ms: None }.into(),
            Renew { id, fence, tenure, not_after_ms: None }.into(),
            Release { id, tenure, linger: None, remember: None }.into(),
            HandOver { id, fence: fence + 1, tenure: None, to: nobody }.into(),
            HandOver { id, fence, tenure, to: nobody }.into(),
        ]);
    }
    let held = |fence: u64| rested.holders.iter().any(|holder| holder.fence == fence);
    for fence in (1..=rested.fence + 1).rev().filter(|fence| !held(*fence)).take(EARLIER) {
        commands.extend([Break { fence, now: false }.into(), Break { fence, now: true }.into()]);
    }
    for command in commands {
        let mut record = rested.clone();
        apply(&mut record, &command, &at);
        let same = record.holders == rested.holders && record.queue == rested.queue;
        ensure!(same, "I7: {command:?} of a stranger changed who holds or waits");
    }
    Ok(())
}

/// A late request of one that ended is refused.
fn refused(watch: &Watch, rested: &Record, at: At) -> Verdict {
    for id in watch.refused.keys() {
        let Some(claim) = watch.claims.get(id) else { continue };
        let mut record = rested.clone();
        let reply = apply(&mut record, &Command::Claim(claim.clone()), &at).reply;
        ensure!(reply == Reply::Claim(ClaimReply::Gone), "gone: a late claim of {} came to {reply:?}", number(*id));
        ensure!(record == *rested, "gone: a late claim of {} changed something", number(*id));
    }
    Ok(())
}

/// That a client is silent takes nothing from it but the very offer that nobody received, and not even that once a
/// claim was told of it.
fn relied_on(watch: &Watch, rested: &Record, at: At) -> Verdict {
    for holder in &rested.holders {
        let Some(client) = holder.client else { continue };
        let told = watch.told.contains(&holder.fence).then_some(Some(holder.fence));
        for offer in [None, Some(holder.fence + 1)].into_iter().chain(told) {
            let mut record = rested.clone();
            apply(&mut record, &Command::Silence(Silence { client, offer }), &at);
            let kept = record.holder(holder.id) == Some(holder);
            ensure!(kept, "silence: {} was taken back, though it may be relied on", number(holder.id));
        }
    }
    Ok(())
}

/// A renewal that comes when the time is over revives nothing.
fn expired(record: &Record, at: At) -> Verdict {
    for holder in &record.holders {
        let Some(left) = at.left_us(&holder.term) else { continue };
        let late = At { now: at.now + left, ..at };
        let mut record = record.clone();
        let renew = Renew { id: holder.id, fence: holder.fence, tenure: None, not_after_ms: None };
        let reply = apply(&mut record, &renew.into(), &late).reply;
        ensure!(matches!(reply, Reply::Hold(HoldReply::Lost(_))), "renew: {} was revived", number(holder.id));
        let again = record.holders.iter().any(|other| other.id == holder.id && other.fence == holder.fence);
        ensure!(!again, "renew: {} holds though it was told that it lost", number(holder.id));
        let waits = record.queue.iter().any(|waiter| waiter.id == holder.id);
        ensure!(!waits || holder.phase == Phase::Offered, "I8: {} ended, and waits again", number(holder.id));
    }
    Ok(())
}
