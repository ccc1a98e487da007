//! What may happen, drawn at random.

use proptest::{collection::vec, option, prelude::*, strategy::Union};

/// How many clients there are.
pub(super) const CLIENTS: usize = 3;
/// How many may compete: each client has several.
pub(super) const PARTIES: usize = 6;

/// One story.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) capacity: u32,
    pub(super) plans: Vec<Plan>,
    /// How long a message takes that no act speaks of, in turn. Microseconds.
    pub(super) lags: Vec<u32>,
    pub(super) acts: Vec<Act>,
}

/// What one party wants, each time that it tries.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) client: usize,
    pub(super) permits: u32,
    /// Milliseconds; never, if there is none.
    pub(super) ttl: Option<u64>,
    pub(super) max_hold: Option<u64>,
    /// Attaches to others with the same work.
    pub(super) work: bool,
    /// Milliseconds; does not queue, if there is none.
    pub(super) waiter_ttl: Option<u64>,
    /// Can be woken.
    pub(super) reachable: bool,
    /// Claims again and renews by itself, in time.
    pub(super) diligent: bool,
}

/// What becomes of one request. Microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Post {
    pub(super) out: u32,
    /// The reply is lost, if there is none.
    pub(super) back: Option<u32>,
    /// So much later it arrives once more.
    pub(super) again: Option<u32>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Time passes. Microseconds.
    Wait(u32),
    Claim(usize, Post),
    /// With a `not_after` so many milliseconds from now.
    Renew(usize, Option<i16>, Post),
    Release(usize, Linger, Post),
    /// Gives up, whatever it has.
    Leave(usize, Post),
    /// To the party of the second number.
    HandOver(usize, usize, Post),
    /// The party of the second number may renew too.
    Share(usize, usize),
    Break(Aim, Post),
    /// A claim for another capacity, or for more than there is.
    Misfit(usize, Post),
    /// The client is never heard again; what is sent to it is received by nobody, or by a process that is stopped.
    Die(usize, Stopped),
    /// The client receives and does nothing for so long. Microseconds.
    Pause(usize, u32),
    /// Nobody receives what is pushed to the client for so long, though it lives. Microseconds.
    Deafen(usize, u32),
    /// The client is the same, and reached elsewhere.
    Reconnect(usize),
    /// The client's process ends, and another begins.
    Restart(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Linger {
    /// Milliseconds.
    pub(super) linger: Option<u16>,
    /// Whether the attempt is remembered though nothing is under way.
    pub(super) remember: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stopped(pub(super) bool);

/// What an operator breaks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    pub(super) now: bool,
    /// The fence is that of an earlier holder.
    pub(super) stale: bool,
}

fn delay() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..3_000_u32, 3 => 0..60_000_u32, 1 => 0..400_000_u32]
}

fn post() -> impl Strategy<Value = Post> {
    let back = prop_oneof![5 => delay().prop_map(Some), 1 => Just(None)];
    let again = prop_oneof![4 => Just(None), 1 => delay().prop_map(Some)];
    (delay(), back, again).prop_map(|(out, back, again)| Post { out, back, again })
}

fn plan(capacity: u32) -> impl Strategy<Value = Plan> {
    let ttl = prop_oneof![3 => Just(Some(60)), 3 => Just(Some(200)), 3 => Just(Some(500)), 1 => Just(None)];
    let max_hold = prop_oneof![4 => Just(None), 1 => (20..600_u64).prop_map(Some)];
    let waiter_ttl = prop_oneof![1 => Just(None), 3 => Just(Some(150)), 5 => Just(Some(600))];
    (
        0..CLIENTS,
        1..=capacity,
        ttl,
        max_hold,
        prop::bool::weighted(0.3),
        waiter_ttl,
        prop::bool::weighted(0.85),
        prop::bool::weighted(0.6),
    )
        .prop_map(|(client, permits, ttl, max_hold, work, waiter_ttl, reachable, diligent)| Plan {
            client,
            permits,
            ttl,
            max_hold,
            work,
            waiter_ttl,
            reachable,
            diligent,
        })
}

/// What happens in a story of these kinds: with fewer kinds, each meets the others more often.
fn act(kinds: u32) -> impl Strategy<Value = Act> {
    let party = || 0..PARTIES;
    let client = || 0..CLIENTS;
    let pause = prop_oneof![3 => 0..20_000_u32, 3 => 0..250_000_u32, 1 => 0..900_000_u32];
    let not_after = prop_oneof![3 => Just(None), 1 => (-50..400_i16).prop_map(Some)];
    let linger =
        (option::weighted(0.2, 1..300_u16), any::<bool>()).prop_map(|(linger, remember)| Linger { linger, remember });
    let aim = (any::<bool>(), prop::bool::weighted(0.3)).prop_map(|(now, stale)| Aim { now, stale });
    let all: Vec<(u32, BoxedStrategy<Act>)> = vec![
        (10, pause.prop_map(Act::Wait).boxed()),
        (12, (party(), post()).prop_map(|(who, post)| Act::Claim(who, post)).boxed()),
        (5, (party(), linger, post()).prop_map(|(who, linger, post)| Act::Release(who, linger, post)).boxed()),
        (4, (party(), not_after, post()).prop_map(|(who, not_after, post)| Act::Renew(who, not_after, post)).boxed()),
        (3, (party(), post()).prop_map(|(who, post)| Act::Leave(who, post)).boxed()),
        (3, (party(), party(), post()).prop_map(|(who, to, post)| Act::HandOver(who, to, post)).boxed()),
        (2, (party(), party()).prop_map(|(who, to)| Act::Share(who, to)).boxed()),
        (3, (aim, post()).prop_map(|(aim, post)| Act::Break(aim, post)).boxed()),
        (1, (party(), post()).prop_map(|(who, post)| Act::Misfit(who, post)).boxed()),
        (1, (client(), any::<bool>()).prop_map(|(client, stopped)| Act::Die(client, Stopped(stopped))).boxed()),
        (3, (client(), 0..400_000_u32).prop_map(|(client, span)| Act::Pause(client, span)).boxed()),
        (4, (client(), 0..200_000_u32).prop_map(|(client, span)| Act::Deafen(client, span)).boxed()),
        (1, client().prop_map(Act::Reconnect).boxed()),
        (1, client().prop_map(Act::Restart).boxed()),
    ];
    // Always the first three; of the others, those of this story.
    let kinds = all.into_iter().enumerate().filter(|(index, _)| *index < 3 || kinds & (1 << index) != 0);
    Union::new_weighted(kinds.map(|(_, kind)| kind).collect())
}

/// Stories of up to so many acts.
pub(super) fn script(acts: usize) -> impl Strategy<Value = Script> {
    let capacity = prop_oneof![3 => Just(1_u32), 1 => 2..4_u32];
    (capacity, any::<u32>()).prop_flat_map(move |(capacity, kinds)| {
        (vec(plan(capacity), PARTIES), vec(0..3_000_u32, 1..6), vec(act(kinds), 1..acts))
            .prop_map(move |(plans, lags, acts)| Script { capacity, plans, lags, acts })
    })
}
