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
    /// The bearer of a ticket that ends is told of what the owner has.
    NotAfterBindsNobody,
    /// A broken lease can be renewed.
    BrokenRenews,
    /// Waiters whose ttl ended stay in the queue.
    DeadWaitersStay,
    /// The fence of a hand-over is given once more to the next.
    HandOverForgetsFence,
    /// A late claim of the one that handed over stands in the queue, or attaches to what it gave away.
    GiverReturns,
    /// The fence starts anew when the record was lost.
    FloorIgnored,
    /// A silenced client loses offers that it knows of.
    SilenceTakesAll,
    /// A waiter that did not answer its offer in time loses its place.
    LapsedOfferLosesPlace,
    /// A waiter that its living client has forgotten is offered the name again and again.
    ForgottenReturns,
    /// An offer that was released or broken returns to the queue when its time is over.
    EndedOfferReturns,
    /// An offer is made, and its receiver not told.
    OfferTellsNobody,
    /// Releasing after the offer lapsed leaves a waiter behind that nobody speaks for.
    ReleaseKeepsPlace,
    /// A release does not wait for its `min_hold`.
    LingerFreesAtOnce,
    /// Nobody looks at the holder's end but the head, which may be dead.
    LooksTooLate,
    /// Only another waiter of the client that may not answer is told that it is next.
    TellsTheSilent,
    /// Holders are counted, not their permits.
    PermitsNotCounted,
    /// One that wants few permits passes one that wants many.
    SmallOvertakesLarge,
    /// A claim for more permits than there are stands at the head for ever.
    ImpossibleClaimWaits,
    /// Whoever attaches keeps its place in the queue, to be offered the name once more.
    AttachKeepsPlace,
    /// A late claim takes an attached lease back.
    LateAttachOvertakes,
    /// An orchestrator that was overtaken can still release.
    OvertakenReleases,
    /// Breaking a lease that never expires leaves it for ever.
    BrokenNeverStays,
    /// A second delivery of a break is a second break.
    BreakIsNotIdempotent,
    /// To ask is to change.
    CheckSettles,
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
