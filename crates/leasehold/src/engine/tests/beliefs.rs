//! What the clients believe, by their own clocks: I1, that no two holders do so at the same time.

use std::collections::{HashMap, HashSet};

use super::{Verdict, ensure, number};
use crate::id::AttemptId;

/// Who believes: a party, or the store that keeps what was released for its `min_hold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Believer {
    Party(usize),
    Lingering,
}

/// Who relies on which lease until when.
#[derive(Debug, Default)]
pub(super) struct Beliefs {
    /// Microseconds.
    until: HashMap<(AttemptId, Believer), u64>,
    /// How many permits each lease has, as the store granted it.
    pub(super) permits: HashMap<AttemptId, u32>,
    /// Its owner said that it is over, or an operator took the risk: nobody's belief in it counts any more.
    closed: HashSet<AttemptId>,
}

impl Beliefs {
    /// From now on this party relies on the lease until then.
    pub(super) fn believe(&mut self, now: u64, capacity: u32, id: AttemptId, who: Believer, until: u64) -> Verdict {
        if until <= now || (self.closed.contains(&id) && who != Believer::Lingering) {
            return Ok(());
        }
        let end = self.until.entry((id, who)).or_default();
        *end = until.max(*end);
        let holders: HashSet<AttemptId> =
            self.until.iter().filter(|(_, until)| **until > now).map(|((id, _), _)| *id).collect();
        let used: u32 = holders.iter().map(|id| self.permits.get(id).copied().unwrap_or(1)).sum();
        ensure!(used <= capacity, "I1: {used} permits of {capacity} are believed in by {:?} at {now}", {
            let mut holders: Vec<_> = holders.into_iter().map(number).collect();
            holders.sort();
            holders
        });
        Ok(())
    }

    /// This party no longer relies on anything.
    pub(super) fn forget(&mut self, who: usize) {
        self.until.retain(|(_, believer), _| *believer != Believer::Party(who));
    }

    /// This lease no longer counts, whoever relies on it.
    pub(super) fn close(&mut self, id: AttemptId) {
        self.until.retain(|(other, _), _| *other != id);
        self.closed.insert(id);
    }

    /// Another owner took it up before that came to anything.
    pub(super) fn reopen(&mut self, id: AttemptId) {
        self.closed.remove(&id);
    }
}
