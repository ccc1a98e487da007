use super::*;

fn event(party: &str, at: u64, what: What) -> Event {
    Event { party: party.into(), at, what }
}

fn acquired(fence: u64) -> What {
    What::Acquired { fence: Some(fence) }
}

fn lost(deadline: u64) -> What {
    What::Lost { loss: Loss::Expired, deadline }
}

/// One hold by `party`, from `from` until `until`.
fn hold(party: &str, from: u64, until: u64, fence: u64) -> Vec<Event> {
    vec![
        event(party, from - 1, What::Asking),
        event(party, from, acquired(fence)),
        event(party, until, What::Releasing),
        event(party, until + 1, What::Released { held: true }),
    ]
}

fn violations(events: &[Event]) -> Vec<Violation> {
    check(events, Fifo::Always).expect_err("this must not pass")
}

#[test]
fn holds_one_after_the_other_with_growing_fences_are_sound() {
    let events = [hold("a", 10, 20, 1), hold("b", 20, 30, 2), hold("a", 31, 40, 7)].concat();
    assert_eq!(assert_sound(&events).len(), 3);
}

#[test]
fn two_who_hold_at_once_are_caught() {
    let events = [hold("a", 10, 20, 1), hold("b", 19, 30, 2)].concat();
    assert!(matches!(violations(&events)[..], [Violation::Overlap { .. }]));
}

#[test]
fn an_overlap_with_an_earlier_hold_than_the_last_is_caught() {
    let events = [hold("a", 10, 50, 1), hold("b", 20, 30, 2), hold("c", 35, 40, 3)].concat();
    assert_eq!(violations(&events).len(), 2, "both b and c held while a did");
}

#[test]
fn a_paused_holder_counts_until_its_deadline_and_not_until_it_was_told() {
    let paused =
        |deadline| vec![event("a", 9, What::Asking), event("a", 10, acquired(1)), event("a", 90, lost(deadline))];
    assert_sound(&[paused(30), hold("b", 30, 40, 2)].concat());
    let events = [paused(31), hold("b", 30, 40, 2)].concat();
    assert!(matches!(violations(&events)[..], [Violation::Overlap { .. }]));
}

#[test]
fn a_holder_that_works_on_after_its_deadline_is_caught() {
    let worked = |at| {
        [("a", 9, What::Asking), ("a", 10, acquired(1)), ("a", at, What::Worked), ("a", 90, lost(30))]
            .map(|(party, at, what)| event(party, at, what))
    };
    assert_sound(&worked(30));
    assert!(matches!(violations(&worked(31))[..], [Violation::WorkedOn { .. }]));
}

#[test]
fn a_holder_that_was_told_early_relies_on_it_no_longer() {
    let told = vec![event("a", 9, What::Asking), event("a", 10, acquired(1)), event("a", 20, lost(100))];
    assert_sound(&[told, hold("b", 21, 30, 2)].concat());
}

#[test]
fn a_killed_holder_counts_until_its_death_and_a_stopped_one_until_its_stop() {
    let asked = [event("a", 9, What::Asking), event("a", 10, acquired(1))];
    let killed = [&asked[..], &[event("a", 50, What::Killed)]].concat();
    assert!(check(&[killed, hold("b", 40, 45, 2)].concat(), Fifo::Always).is_err());
    let stopped = [&asked[..], &[event("a", 30, What::Stopped), event("a", 50, What::Killed)]].concat();
    assert_sound(&[stopped.clone(), hold("b", 40, 45, 2)].concat());
    // Continued, and killed before it could say that it had lost.
    let continued = [&stopped[..], &[event("a", 45, What::Continued)]].concat();
    assert_sound(&[continued.clone(), hold("b", 40, 48, 2)].concat());
    let twice = [&continued[..], &[event("a", 46, What::Stopped), event("a", 47, What::Continued)]].concat();
    assert_sound(&[twice, hold("b", 40, 48, 2)].concat());
    let worked = [&continued[..], &[event("a", 46, What::Worked)]].concat();
    assert!(check(&[worked, hold("b", 40, 48, 2)].concat(), Fifo::Always).is_err());
}

#[test]
fn a_holder_that_never_ended_excludes_all_later_ones() {
    let open = vec![event("a", 9, What::Asking), event("a", 10, acquired(1))];
    assert!(check(&[open, hold("b", 1_000_000, 1_000_001, 2)].concat(), Fifo::Always).is_err());
}

#[test]
fn a_fence_that_comes_twice_or_shrinks_is_caught() {
    for fence in [2, 1] {
        let events = [hold("a", 10, 20, 2), hold("b", 30, 40, fence)].concat();
        assert!(matches!(violations(&events)[..], [Violation::FenceNotGrown { .. }]), "then {fence}");
    }
}

#[test]
fn a_fence_that_is_missing_once_is_caught() {
    let mut second = hold("b", 30, 40, 2);
    second[1].what = What::Acquired { fence: None };
    assert!(check(&[hold("a", 10, 20, 2), second].concat(), Fifo::Always).is_err());
}

/// `a` waits from 5 on; `b` asks at 6 and is served before it.
fn overtaking(between: &[Event]) -> Vec<Event> {
    let first = vec![event("a", 4, What::Asking), event("a", 5, What::Queued)];
    let second = vec![event("b", 6, What::Asking), event("b", 7, What::Queued), event("b", 20, acquired(1))];
    let rest = vec![event("b", 30, What::Releasing)];
    [first, second, between.to_vec(), rest].concat()
}

#[test]
fn a_waiter_that_is_overtaken_is_caught_whether_or_not_it_is_served_later() {
    assert!(matches!(violations(&overtaking(&[]))[..], [Violation::Overtaken { .. }]));
    let later = [event("a", 40, acquired(2)), event("a", 50, What::Releasing)];
    assert!(matches!(violations(&overtaking(&later))[..], [Violation::Overtaken { .. }]));
}

#[test]
fn a_waiter_that_gave_up_was_stopped_or_killed_may_be_overtaken() {
    for what in [What::GaveUp, What::Signalled, What::Stopped, What::Killed] {
        assert_sound(&overtaking(&[event("a", 15, what)]));
    }
    for what in [What::GaveUp, What::Signalled, What::Stopped, What::Killed] {
        assert!(check(&overtaking(&[event("a", 25, what)]), Fifo::Always).is_err(), "too late an excuse");
    }
}

#[test]
fn one_that_died_may_have_taken_a_wake_up_with_it() {
    let died = |at| [overtaking(&[]), vec![event("c", at, What::Killed)]].concat();
    assert_eq!(check(&died(10), Fifo::Undisturbed).map(|holds| holds.len()), Ok(1));
    assert!(check(&died(10), Fifo::Always).is_err());
    for at in [4, 21] {
        assert!(check(&died(at), Fifo::Undisturbed).is_err(), "that was before or after the wait");
    }
}

#[test]
fn who_came_first_is_judged_only_where_it_is_known() {
    // b asked before a was told of its place: either may be first.
    let events = vec![
        event("a", 4, What::Asking),
        event("b", 5, What::Asking),
        event("a", 6, What::Queued),
        event("b", 20, acquired(1)),
        event("b", 30, What::Releasing),
    ];
    assert_sound(&events);
}

#[test]
fn a_history_that_makes_no_sense_is_not_taken_for_a_good_one() {
    for events in [
        vec![event("a", 1, acquired(1))],
        vec![event("a", 1, What::Asking), event("a", 2, acquired(1)), event("a", 3, acquired(2))],
        vec![event("a", 1, What::Asking), event("a", 2, What::Asking)],
        vec![event("a", 1, What::Asking), event("a", 2, What::Worked)],
        vec![event("a", 1, What::Asking), event("a", 2, acquired(1)), event("a", 3, What::GaveUp)],
    ] {
        assert!(matches!(violations(&events)[..], [Violation::Nonsense { .. }, ..]), "{events:?}");
    }
}
