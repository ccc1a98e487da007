//! The queue as anyone outside would keep it: I4, first come, first served among those that are heard; I6, nothing
//! stands free while one of them waits.

use super::{Verdict, ensure, number, watch::Seen};
use crate::{
    engine::{BreakReply, Claim, ClaimReply, Command, HandOverReply, News, Reply, Silence},
    id::{AttemptId, ClientId},
    view::Phase,
};

/// Those who wait, by arrival.
#[derive(Debug, Default)]
pub(super) struct Line {
    places: Vec<Place>,
    arrivals: u64,
}

#[derive(Debug)]
struct Place {
    id: AttemptId,
    client: Option<ClientId>,
    arrival: u64,
    permits: u32,
    /// When it was heard last, and how long that lasts. Microseconds.
    heard: u64,
    ttl: u64,
    /// The fence of what it was offered and has not confirmed.
    offered: Option<u64>,
    /// Its client did not answer, and was not heard since.
    silent: bool,
    /// It did not answer an offer itself, and was not heard since.
    lapsed: bool,
}

impl Line {
    pub(super) fn step(&mut self, seen: &Seen) -> Verdict {
        self.lapse(seen);
        match seen.command {
            Command::Check(_) => return Ok(()),
            Command::Claim(claim) => self.claim(claim, seen),
            Command::Leave(leave) => self.remove(leave.id),
            Command::Release(release) => self.remove(release.id),
            Command::HandOver(hand_over) => {
                if let Reply::HandOver(HandOverReply::Done { .. }) = seen.applied.reply {
                    self.remove(hand_over.id);
                    self.remove(hand_over.to);
                }
            }
            Command::Break(request) => {
                if let Reply::Break(BreakReply::Broken { .. }) = seen.applied.reply {
                    self.places.retain(|place| place.offered != Some(request.fence));
                }
            }
            Command::Silence(silence) => self.silence(*silence, seen),
            Command::Renew(_) => {}
        }
        self.grants(seen)?;
        self.nothing_idle(seen)
    }

    /// What time alone does.
    fn lapse(&mut self, seen: &Seen) {
        let over = |place: &Place| {
            let fence = place.offered?;
            let holder = seen.before.holders.iter().find(|holder| holder.id == place.id && holder.fence == fence)?;
            seen.at.is_over(&holder.term).then_some((place.id, place.client))
        };
        let lapsed: Vec<_> = self.places.iter().filter_map(over).collect();
        for (id, client) in lapsed {
            for place in &mut self.places {
                if place.id == id {
                    place.offered = None;
                    place.silent = true;
                    place.lapsed = true;
                }
                place.silent |= client.is_some() && place.client == client && place.offered.is_none();
            }
        }
        self.places.retain(|place| place.offered.is_some() || place.heard + place.ttl > seen.at.now);
    }

    fn claim(&mut self, claim: &Claim, seen: &Seen) {
        let Reply::Claim(reply) = &seen.applied.reply else { return };
        let ended = seen.before.tombstone(claim.id).is_some_and(|tombstone| !seen.at.is_over(&tombstone.term));
        if ended || claim.permits > claim.capacity {
            return;
        }
        for place in self.places.iter_mut().filter(|place| place.offered.is_none()) {
            if place.id == claim.id {
                place.client = claim.client;
                place.lapsed = false;
            }
            if place.id == claim.id || (place.client.is_some() && place.client == claim.client && !place.lapsed) {
                place.heard = seen.at.now;
                place.silent = false;
            }
        }
        match reply {
            ClaimReply::Queued(_) if self.places.iter().all(|place| place.id != claim.id) => {
                let ttl = claim.queue.and_then(|queueing| queueing.waiter_ttl.duration());
                self.arrivals += 1;
                self.places.push(Place {
                    id: claim.id,
                    client: claim.client,
                    arrival: self.arrivals,
                    permits: claim.permits,
                    heard: seen.at.now,
                    ttl: ttl.map_or(u64::MAX / 2, super::clock::micros),
                    offered: None,
                    silent: false,
                    lapsed: false,
                });
            }
            ClaimReply::Granted(grant) if grant.id != claim.id => self.remove(claim.id),
            _ => {}
        }
    }

    fn silence(&mut self, silence: Silence, seen: &Seen) {
        for place in self.places.iter_mut().filter(|place| place.client == Some(silence.client)) {
            if place.offered.is_some_and(|fence| seen.after.holders.iter().all(|holder| holder.fence != fence)) {
                place.offered = None;
            }
            place.silent |= place.offered.is_none();
        }
    }

    fn remove(&mut self, id: AttemptId) {
        self.places.retain(|place| place.id != id);
    }

    fn grants(&mut self, seen: &Seen) -> Verdict {
        let granted = seen.granted();
        for holder in &granted {
            let own = self.places.iter().find(|place| place.id == holder.id);
            let arrival = own.map_or(u64::MAX, |place| place.arrival);
            let overtaken = self.places.iter().find(|place| {
                place.arrival < arrival
                    && place.offered.is_none()
                    && !place.silent
                    && granted.iter().all(|other| other.id != place.id)
            });
            ensure!(
                overtaken.is_none(),
                "I4: {} was granted before {}, which came first and was heard",
                number(holder.id),
                number(overtaken.expect("just seen").id)
            );
            let told = seen
                .applied
                .wakes
                .iter()
                .any(|wake| wake.id == holder.id && wake.news == News::Offer { fence: holder.fence });
            ensure!(
                told || holder.phase != Phase::Offered || holder.client.is_none() || holder.tenure > 0,
                "I6: {} was offered the name and not told",
                number(holder.id)
            );
        }
        for place in &mut self.places {
            if let Some(holder) = granted.iter().find(|holder| holder.id == place.id) {
                place.offered = Some(holder.fence);
            }
        }
        self.places.retain(|place| {
            let held = |fence| seen.after.holders.iter().find(|holder| holder.id == place.id && holder.fence == fence);
            // Neither confirmed nor attached to.
            let unanswered = |fence| held(fence).is_some_and(|h| h.phase == Phase::Offered && h.tenure == 0);
            place.offered.is_none_or(unanswered)
        });
        Ok(())
    }

    fn nothing_idle(&self, seen: &Seen) -> Verdict {
        let free = seen.after.capacity.saturating_sub(seen.after.permits_used());
        let first = self.places.iter().find(|place| place.offered.is_none() && !place.silent);
        let idle = first.filter(|place| place.permits <= free);
        ensure!(idle.is_none(), "I6: the name is free and {} waits", number(idle.expect("just seen").id));
        Ok(())
    }
}
