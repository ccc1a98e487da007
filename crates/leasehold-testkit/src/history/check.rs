//! The checker.

use std::collections::BTreeMap;

use super::{Event, Fifo, Hold, Violation, What};

/// One acquisition: from asking to the end, whatever that is.
#[derive(Debug)]
struct Attempt {
    party: String,
    asked: u64,
    queued: Option<u64>,
    /// The wait ended then without a grant.
    gave_up: Option<u64>,
    /// It was stopped or killed then, so that it could not answer: it may be passed over from then on.
    disturbed: Option<u64>,
    worked: Option<u64>,
    hold: Option<Hold>,
}

/// The holds, in order, of a history about one name; or everything about it that must not be.
pub fn check(events: &[Event], fifo: Fifo) -> Result<Vec<Hold>, Vec<Violation>> {
    let mut parties: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        parties.entry(&event.party).or_default().push(event);
    }
    let mut violations = Vec::new();
    let mut attempts = Vec::new();
    for (party, mut events) in parties {
        // What a party says and what is said of it come from different places; each is in order.
        events.sort_by_key(|event| event.at);
        match attempts_of(party, &events) {
            Ok(found) => attempts.extend(found),
            Err(why) => violations.push(Violation::Nonsense { party: party.to_owned(), why }),
        }
    }
    let mut holds: Vec<Hold> = attempts.iter().filter_map(|attempt| attempt.hold.clone()).collect();
    holds.sort_by_key(|hold| hold.from);

    for attempt in &attempts {
        if let (Some(at), Some(hold)) = (attempt.worked, &attempt.hold)
            && at > hold.until
        {
            violations.push(Violation::WorkedOn { hold: hold.clone(), at });
        }
    }
    overlaps(&holds, &mut violations);
    fences(&holds, &mut violations);
    let disturbances: Vec<u64> = match fifo {
        Fifo::Always => Vec::new(),
        Fifo::Undisturbed => events
            .iter()
            .filter(|e| matches!(e.what, What::Signalled | What::Stopped | What::Killed))
            .map(|e| e.at)
            .collect(),
    };
    overtaken(&attempts, &disturbances, &mut violations);
    if violations.is_empty() { Ok(holds) } else { Err(violations) }
}

fn attempts_of(party: &str, events: &[&Event]) -> Result<Vec<Attempt>, String> {
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut open = false;
    // Since when it has stood still: it may have been continued, but has said nothing since.
    let mut still: Option<u64> = None;
    for Event { at, what, .. } in events {
        let at = *at;
        match what {
            What::Asking if open => return Err(format!("asked at {at} with an acquisition under way")),
            What::Asking => {
                let (queued, gave_up, disturbed, worked, hold) = (None, None, None, None, None);
                attempts.push(Attempt { party: party.to_owned(), asked: at, queued, gave_up, disturbed, worked, hold });
                (open, still) = (true, None);
                continue;
            }
            What::Stopped => still = still.or(Some(at)),
            What::Signalled | What::Continued | What::Killed => {}
            _ => still = None,
        }
        let Some(attempt) = attempts.last_mut().filter(|_| open) else {
            // Between two acquisitions, or an echo of the end of one.
            match what {
                What::Acquired { .. } | What::Worked | What::Queued => {
                    return Err(format!("{what:?} at {at} without having asked"));
                }
                _ => continue,
            }
        };
        match what {
            What::Asking | What::Continued | What::Wrote { .. } => {}
            What::Queued => attempt.queued = attempt.queued.or(Some(at)),
            What::GaveUp if attempt.hold.is_none() => {
                attempt.gave_up = Some(at);
                open = false;
            }
            What::Acquired { fence } if attempt.hold.is_none() => {
                attempt.hold = Some(Hold { party: party.to_owned(), fence: *fence, from: at, until: u64::MAX });
            }
            What::GaveUp | What::Acquired { .. } => return Err(format!("{what:?} at {at} while it held")),
            What::Worked => {
                if attempt.hold.is_none() {
                    return Err(format!("worked at {at} without holding"));
                }
                attempt.worked = Some(at);
            }
            What::Signalled | What::Stopped => attempt.disturbed = attempt.disturbed.or(Some(at)),
            What::Killed => {
                attempt.disturbed = attempt.disturbed.or(Some(at));
                // One that stood still relied on nothing until it was killed.
                end(attempt, still.unwrap_or(at));
                open = false;
            }
            What::Lost { deadline, .. } => {
                end(attempt, at.min(*deadline));
                open = false;
            }
            What::Releasing => end(attempt, at),
            What::Released { .. } => open = false,
        }
    }
    Ok(attempts)
}

fn end(attempt: &mut Attempt, at: u64) {
    if let Some(hold) = &mut attempt.hold {
        hold.until = hold.until.min(at);
    }
}

/// I1.
fn overlaps(holds: &[Hold], violations: &mut Vec<Violation>) {
    let mut longest: Option<&Hold> = None;
    for hold in holds {
        if let Some(first) = longest
            && hold.from < first.until
        {
            violations.push(Violation::Overlap { first: first.clone(), second: hold.clone() });
        }
        if longest.is_none_or(|first| first.until < hold.until) {
            longest = Some(hold);
        }
    }
}

/// I2. A store without fences gives none to anyone.
fn fences(holds: &[Hold], violations: &mut Vec<Violation>) {
    if holds.iter().all(|hold| hold.fence.is_none()) {
        return;
    }
    let mut largest: Option<&Hold> = None;
    for hold in holds {
        if let Some(first) = largest
            && hold.fence <= first.fence
        {
            violations.push(Violation::FenceNotGrown { first: first.clone(), second: hold.clone() });
        }
        if hold.fence.is_none() {
            let why = "got no fence, though others did".to_owned();
            violations.push(Violation::Nonsense { party: hold.party.clone(), why });
        }
        if largest.is_none_or(|first| first.fence < hold.fence) {
            largest = Some(hold);
        }
    }
}

/// I4. One was first for certain if it stood in the queue before the other asked.
fn overtaken(attempts: &[Attempt], disturbances: &[u64], violations: &mut Vec<Violation>) {
    for first in attempts {
        let Some(queued) = first.queued else { continue };
        let served = first.hold.as_ref().map(|hold| hold.from);
        let excused = [served, first.gave_up, first.disturbed].into_iter().flatten().min().unwrap_or(u64::MAX);
        let excused = disturbances.iter().copied().filter(|at| *at >= queued).fold(excused, u64::min);
        for second in attempts {
            if let Some(by) = &second.hold
                && second.asked > queued
                && by.from < excused
            {
                violations.push(Violation::Overtaken { waiting: first.party.clone(), by: by.clone() });
            }
        }
    }
}
