//! Known-bad variants of the engine, each a mistake that real lock libraries have made. The properties must catch every
//! one of them, or they prove nothing.

use std::cell::Cell;

macro_rules! variants {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// One mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Variant { $($(#[$doc])* $name),* }

        /// All of them.
        pub(crate) const ALL: &[Variant] = &[$(Variant::$name),*];
    };
}

variants! {
    /// Release frees the name whoever asks.
    ReleaseWithoutCompare,
    /// A renewal of what is gone makes it anew.
    RenewCreates,
    /// A renewal revives what has expired.
    RenewRevives,
    /// Nobody remembers who gave up.
    NoTombstone,
    /// Tombstones are kept for ever.
    TombstonesForever,
    /// A grant repeats the last fence.
    FenceNotRaised,
    /// The receiver of a hand-over gets the giver's fence.
    HandOverKeepsFence,
    /// A waiter that has not answered gets a whole ttl.
    OfferLastsWholeTtl,
    /// A heartbeat sends its waiter to the end of the queue.
    HeartbeatLosesPlace,
    /// A newcomer takes a free name past the queue.
    NewcomerOvertakes,
    /// A second delivery of a claim is a second grant.
    ClaimIsNotIdempotent,
    /// Leaving forgets the grant that raced with it.
    LeaveKeepsGrant,
    /// Break does not look at the fence.
    BreakHitsAnyone,
    /// A silent waiter stays parked when it is heard again.
    ParkedForever,
    /// Only the waiter that did not answer is silenced, not its client's others.
    SilenceOneByOne,
    /// `max_hold` and `not_after` do not end the renewing.
    CapsIgnored,
    /// A broken lease can be renewed.
    BrokenRenews,
    /// Waiters whose ttl ended stay in the queue.
    DeadWaitersStay,
}

thread_local! {
    static ON: Cell<Option<Variant>> = const { Cell::new(None) };
}

pub(crate) fn is_on(variant: Variant) -> bool {
    ON.get() == Some(variant)
}

/// Runs `work` with the mistake built in, on this thread.
pub(crate) fn with<T>(variant: Variant, work: impl FnOnce() -> T) -> T {
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            ON.set(None);
        }
    }
    ON.set(Some(variant));
    let _off = Off;
    work()
}
