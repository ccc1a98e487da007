//! What anyone may see of a record.

use super::{Evidence, Holder, Record};
use crate::{
    name::Name,
    view::{HolderView, LeaseView, WaiterView},
};

/// What anyone may see of the record.
pub fn view(name: &Name, record: &Record, evidence: &dyn Evidence) -> LeaseView {
    let alive = |term| !evidence.left(term).is_over();
    let waiters = record.queue.iter().filter(|waiter| alive(&waiter.term)).enumerate();
    LeaseView {
        name: name.clone(),
        holders: record.holders.iter().filter(|h| alive(&h.term)).map(|h| holder_view(h, evidence)).collect(),
        queue: Some(
            waiters
                .map(|(index, waiter)| WaiterView {
                    position: position(index),
                    owner: waiter.who.owner.clone(),
                    reason: waiter.who.reason.clone(),
                    waiting: evidence.since(waiter.since),
                    silent: waiter.parked,
                })
                .collect(),
        ),
    }
}

pub(super) fn holder_view(holder: &Holder, evidence: &dyn Evidence) -> HolderView {
    HolderView {
        fence: Some(holder.fence),
        owner: holder.who.owner.clone(),
        reason: holder.who.reason.clone(),
        acquired_at_ms: holder.acquired_at_ms,
        expires_in: evidence.left(&holder.term).duration(),
        phase: holder.phase,
    }
}

pub(super) fn position(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}
