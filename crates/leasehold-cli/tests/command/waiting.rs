//! Waiting, and what is said meanwhile.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::support::{Store, eventually};

#[test]
fn run_waits_for_its_turn() {
    let store = Store::new();
    let ticket = store.acquire(&["x"]);
    let waiter = store.start(&["run", "x", "--wait", "1m", "--", "echo", "mine"]);
    eventually("it waits", || store.status("x")["queue"].as_array().unwrap().len() == 1);
    store.leasehold(&["release", "--ticket", &ticket]);
    let done = waiter.end();
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, "mine\n", ""));
}

#[test]
fn a_wait_that_is_over_is_75_and_leaves_the_queue() {
    let store = Store::new();
    store.acquire(&["x"]);
    let start = Instant::now();
    assert_eq!(store.leasehold(&["run", "x", "--wait", "300ms", "--", "true"]).code, 75);
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(store.status("x")["queue"].as_array().unwrap().len(), 0);
}

#[test]
fn after_five_seconds_one_line_says_for_whom() {
    let store = Store::new();
    let ticket = store.acquire(&["x", "--owner", "the other", "--reason", "a reason"]);
    let start = Instant::now();
    let done = store.leasehold(&["run", "x", "--wait", "7500ms", "--", "true"]);
    assert!(start.elapsed() >= Duration::from_millis(7500));
    assert_eq!(done.code, 75);
    let lines: Vec<_> = done.err.lines().filter(|line| line.contains("waiting for x")).collect();
    assert_eq!(lines.len(), 1, "once, off a terminal: {done:?}");
    for part in ["the other", "a reason", "since 20", "place 1 in the queue"] {
        assert!(lines[0].contains(part), "{part}: {done:?}");
    }
    drop(ticket);
}

#[test]
fn a_store_that_was_never_reached_is_69_after_the_wait() {
    let store = Store::new();
    store.leasehold(&["run", "x", "--", "true"]);
    let turn = fs::File::open(store.path("leases.db-turn")).unwrap();
    turn.lock().unwrap();
    let start = Instant::now();
    let done = store.leasehold(&["run", "x", "--json", "--wait", "300ms", "--", "true"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert_eq!(done.json()["error"]["kind"], "unavailable", "{done:?}");
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[test]
fn once_queued_a_store_that_goes_away_is_waited_for_and_is_69_at_the_end() {
    let store = Store::new();
    let ticket = store.acquire(&["x", "--ttl", "2m"]);
    let patient = store.start(&["run", "x", "--", "echo", "mine"]);
    let impatient = store.start(&["run", "x", "--wait", "12s", "--", "true"]);
    eventually("both wait", || store.status("x")["queue"].as_array().unwrap().len() == 2);
    let turn = fs::File::open(store.path("leases.db-turn")).unwrap();
    turn.lock().unwrap();
    let done = impatient.end();
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("the store is away"), "{done:?}");
    drop(turn);
    assert_eq!(store.leasehold(&["release", "--ticket", &ticket]).code, 0);
    let done = patient.end();
    assert_eq!((done.code, done.out.as_str()), (0, "mine\n"), "{done:?}");
}

#[test]
fn a_store_that_is_away_when_a_short_wait_ends_is_69_and_not_75() {
    let store = Store::new();
    store.acquire(&["x", "--ttl", "2m"]);
    let waiter = store.start(&["run", "x", "--wait", "2s", "--json", "--", "true"]);
    eventually("it waits", || store.status("x")["queue"].as_array().unwrap().len() == 1);
    let turn = fs::File::open(store.path("leases.db-turn")).unwrap();
    turn.lock().unwrap();
    let done = waiter.end();
    assert_eq!(done.code, 69, "{done:?}");
    assert_eq!(done.json()["error"]["kind"], "unavailable", "{done:?}");
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_came() {
    let store = Store::new();
    let ticket = store.acquire(&["x"]);
    let mut waiters = Vec::new();
    for number in 1..=3 {
        let script = format!("echo {number} >> order");
        waiters.push(store.start(&["run", "x", "--", "sh", "-c", &script]));
        eventually("it waits", || store.status("x")["queue"].as_array().unwrap().len() == number);
    }
    store.leasehold(&["release", "--ticket", &ticket]);
    for waiter in waiters {
        assert_eq!(waiter.end().code, 0);
    }
    assert_eq!(fs::read_to_string(store.path("order")).unwrap(), "1\n2\n3\n");
}
