//! What a party says of itself.

use std::fmt;

use leasehold::{
    Lease,
    clock::{Clock as _, SystemClock},
};

use super::{Event, What};

/// Says what happens to a party, so that each time it names is one at which that was so.
///
/// Between a look at the lease and the line that says so the process may be stopped for any time. So the time is read
/// first, and what the look then finds was true at that time.
pub struct Recorder {
    party: String,
    sink: Box<dyn Fn(Event) + Send + Sync>,
}

impl Recorder {
    /// Of a party; `sink` takes what it says.
    pub fn new(party: impl Into<String>, sink: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self { party: party.into(), sink: Box::new(sink) }
    }

    /// Who speaks.
    pub fn party(&self) -> &str {
        &self.party
    }

    /// Says what happens now.
    pub fn says(&self, what: What) {
        self.said(now(), what);
    }

    /// It was granted a lease. `false` if it came too late to be of use.
    pub fn acquired(&self, lease: &Lease) -> bool {
        let at = now();
        let valid = lease.is_valid();
        self.said(at, if valid { What::Acquired { fence: lease.fence() } } else { What::GaveUp });
        valid
    }

    /// It does something under its lease. `false`, and nothing is said, if that is lost.
    pub fn works(&self, lease: &Lease) -> bool {
        let at = now();
        let valid = lease.is_valid();
        if valid {
            self.said(at, What::Worked);
        }
        valid
    }

    /// It is done with its lease: about to release it, or, if it is lost, `false`.
    pub fn ends(&self, lease: &Lease) -> bool {
        let at = now();
        let loss = lease.loss();
        match loss {
            None => self.said(at, What::Releasing),
            Some(loss) => self.says(What::Lost { loss, deadline: lease.deadline().nanos() }),
        }
        loss.is_none()
    }

    fn said(&self, at: u64, what: What) {
        (self.sink)(Event { party: self.party.clone(), at, what });
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("party", &self.party).finish_non_exhaustive()
    }
}

fn now() -> u64 {
    SystemClock.now().nanos()
}
