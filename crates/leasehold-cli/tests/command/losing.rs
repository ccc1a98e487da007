//! `run` when the lease is lost: the command is gone before another can have it.

use std::{fs, thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Running, Store, eventually, is_alive, last_time};

/// A command that writes the time every few milliseconds, and does not go when it is asked to.
const STUBBORN: &str = "trap '' TERM; echo $$ > pid; while :; do date +%s%N >> beats; sleep 0.01; done";

/// The time at which the next one had the lease.
fn successor(store: &Store) -> Running {
    store.start(&["run", "x", "--owner", "successor", "--", "date", "+%s%N"])
}

fn assert_gone_before(store: &Store, successor: Running) {
    let taken: u128 = successor.end().out.trim().parse().unwrap();
    let last = last_time(&store.path("beats"));
    assert!(last < taken, "the command was at work {} µs into the next lease", (last - taken) / 1000);
    let pid: i32 = fs::read_to_string(store.path("pid")).unwrap().trim().parse().unwrap();
    assert!(!is_alive(pid));
}

fn fence(store: &Store) -> String {
    store.status("x")["holders"][0]["fence"].to_string()
}

#[test]
fn at_its_longest_hold_the_command_is_ended_before_the_next_has_the_lease() {
    let store = Store::new();
    let victim = store.start(&["run", "x", "--ttl", "1s", "--max-hold", "1500ms", "--", "sh", "-c", STUBBORN]);
    store.wait_for_file("beats");
    let next = successor(&store);
    let done = victim.end();
    assert_eq!(done.code, 79, "{done:?}");
    assert!(done.err.contains("longest"), "{done:?}");
    assert_gone_before(&store, next);
}

#[test]
fn a_lease_that_cannot_be_renewed_ends_the_command_before_the_next_has_it() {
    let store = Store::new();
    let victim = store.start(&["run", "x", "--ttl", "2s", "--", "sh", "-c", STUBBORN]);
    store.wait_for_file("beats");
    let next = successor(&store);
    eventually("the next one waits", || !store.status("x")["queue"].as_array().unwrap().is_empty());
    // Nobody can write to the store now, until well after the lease has run out.
    let turn = fs::File::open(store.path("leases.db-turn")).unwrap();
    turn.lock().unwrap();
    let done = victim.end();
    assert_eq!(done.code, 79, "{done:?}");
    drop(turn);
    assert_gone_before(&store, next);
}

#[test]
fn a_broken_lease_ends_the_command_at_once() {
    let store = Store::new();
    let victim = store.start(&["run", "x", "--ttl", "1s", "--", "sh", "-c", STUBBORN]);
    store.wait_for_file("beats");
    let next = successor(&store);
    assert_eq!(store.leasehold(&["break", "x", "--fence", &fence(&store)]).code, 0);
    let done = victim.end();
    assert_eq!(done.code, 79, "{done:?}");
    assert!(done.err.contains("broke"), "{done:?}");
    assert_gone_before(&store, next);
}

#[test]
fn the_command_is_asked_before_it_is_killed() {
    let store = Store::new();
    let script = "trap 'echo asked > asked; exit 3' TERM; echo > up; while :; do sleep 0.05; done";
    let victim = store.start(&["run", "x", "--ttl", "2s", "--", "sh", "-c", script]);
    store.wait_for_file("up");
    assert_eq!(store.leasehold(&["break", "x", "--fence", &fence(&store)]).code, 0);
    assert_eq!(victim.end().code, 79, "not the command's own");
    assert_eq!(store.wait_for_file("asked"), "asked\n");
}

#[test]
fn the_last_part_of_the_validity_is_kept_for_the_command_to_end_in() {
    let store = Store::new();
    // It ends well, if it is given half a second for that.
    let script = "trap 'sleep 0.5; date +%s%N > ended; exit 0' TERM; echo > up; while :; do sleep 0.02; done";
    let victim =
        store.start(&["run", "x", "--ttl", "6s", "--max-hold", "3s", "--grace", "2s", "--", "bash", "-c", script]);
    store.wait_for_file("up");
    let next = successor(&store);
    let done = victim.end();
    assert_eq!(done.code, 79, "{done:?}");
    let taken: u128 = next.end().out.trim().parse().unwrap();
    assert!(last_time(&store.path("ended")) < taken);
}

#[test]
fn those_whom_the_command_started_are_ended_with_it() {
    let store = Store::new();
    // The leader goes when asked, its child does not.
    let script = "sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.05; done' & wait";
    let victim = store.start(&["run", "x", "--ttl", "600ms", "--", "sh", "-c", script]);
    let child: i32 = store.wait_for_file("child").trim().parse().unwrap();
    assert_eq!(store.leasehold(&["break", "x", "--fence", &fence(&store)]).code, 0);
    assert_eq!(victim.end().code, 79);
    assert!(!is_alive(child));
}

#[test]
fn a_stopped_command_is_ended_too() {
    let store = Store::new();
    let script = "echo $$ > pid; while :; do sleep 0.05; done";
    let victim = store.start(&["run", "x", "--ttl", "1s", "--", "sh", "-c", script]);
    let pid: i32 = store.wait_for_file("pid").trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    assert_eq!(store.leasehold(&["break", "x", "--fence", &fence(&store)]).code, 0);
    assert_eq!(victim.end().code, 79);
    assert!(!is_alive(pid));
}

#[test]
fn resumed_after_a_pause_that_outlasted_the_lease_the_command_is_killed_at_once() {
    let store = Store::new();
    let script = "trap 'echo asked > asked' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let victim = store.start(&["run", "x", "--ttl", "500ms", "--", "sh", "-c", script]);
    let pid: i32 = store.wait_for_file("pid").trim().parse().unwrap();
    victim.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(800));
    assert!(is_alive(pid), "nobody can end it while we are stopped");
    victim.signal(Signal::CONT);
    let done = victim.end();
    assert_eq!(done.code, 79, "{done:?}");
    assert!(!is_alive(pid));
    assert!(!store.path("asked").exists(), "SIGKILL at once: it is too late to ask");
}

#[test]
fn with_warn_the_command_goes_on_and_success_becomes_79() {
    let store = Store::new();
    for (exit, code) in [("exit 0", 79), ("exit 5", 5)] {
        let script = format!("echo > up; while ! [ -e go ]; do sleep 0.02; done; {exit}");
        let victim = store.start(&["run", "x", "--ttl", "1s", "--on-lost", "warn", "--", "sh", "-c", &script]);
        store.wait_for_file("up");
        assert_eq!(store.leasehold(&["break", "x", "--now", "--fence", &fence(&store)]).code, 0);
        // Held by another by now, for sure.
        assert_eq!(store.leasehold(&["run", "x", "--", "true"]).code, 0);
        thread::sleep(Duration::from_millis(1200));
        fs::write(store.path("go"), "").unwrap();
        let done = victim.end();
        assert_eq!(done.code, code, "{done:?}");
        assert!(done.err.contains("goes on without it"), "{done:?}");
        fs::remove_file(store.path("go")).unwrap();
        fs::remove_file(store.path("up")).unwrap();
    }
}

#[test]
fn a_lease_whose_command_could_not_be_ended_is_not_given_back() {
    let store = Store::new();
    // One of the command's group is dead and never reaped, since its parent left the group: the group stays.
    let script = "sh -c 'sleep 300 & exec setsid sh -c \"echo \\$\\$ > keeper; exec sleep 300\"' & wait";
    let mut command = store.command(&["run", "x", "--ttl", "30s", "--grace", "500ms", "--", "sh", "-c", script]);
    // What stays behind must not hold our pipes open.
    command.stdout(std::process::Stdio::null()).stderr(fs::File::create(store.path("err")).unwrap());
    let mut victim = command.spawn().unwrap();
    let keeper: i32 = store.wait_for_file("keeper").trim().parse().unwrap();
    assert_eq!(store.leasehold(&["break", "x", "--fence", &fence(&store)]).code, 0);
    let code = victim.wait().unwrap().code();
    let held = store.is_held("x");
    kill_process(Pid::from_raw(keeper).unwrap(), Signal::KILL).unwrap();
    assert_eq!(code, Some(79));
    let told = fs::read_to_string(store.path("err")).unwrap();
    assert!(told.contains("has not ended yet"), "{told}");
    assert!(held, "what may still be at work keeps its name until its time is up");
}

/// Runs a command under a lease that never expires, and takes the store away before it ends with `exit`.
fn never_released(store: &Store, exit: &str) -> (Running, fs::File) {
    let script = format!("echo > up; while ! [ -e go ]; do sleep 0.02; done; exit {exit}");
    let running = store.start(&["run", "x", "--ttl", "never", "--", "sh", "-c", &script]);
    store.wait_for_file("up");
    let turn = fs::File::open(store.path("leases.db-turn")).unwrap();
    turn.lock().unwrap();
    fs::write(store.path("go"), "").unwrap();
    (running, turn)
}

#[test]
fn a_lease_that_never_expires_and_cannot_be_released_is_69_and_says_how_to_break_it() {
    for (exit, code) in [("0", 69), ("5", 5)] {
        let store = Store::new();
        let (running, turn) = never_released(&store, exit);
        let start = std::time::Instant::now();
        let fence = fence(&store);
        if exit == "5" {
            // Who does not want to wait says so.
            thread::sleep(Duration::from_secs(7));
            running.signal(Signal::TERM);
        }
        let done = running.end();
        assert_eq!(done.code, code, "{done:?}");
        assert!(start.elapsed() >= Duration::from_secs(if exit == "0" { 25 } else { 7 }), "{done:?}");
        assert!(done.err.contains("trying for"), "{done:?}");
        assert!(done.err.contains(&format!("leasehold break x --fence {fence}")), "{done:?}");
        assert!(!done.err.contains("by itself"), "{done:?}");
        drop(turn);
        assert!(store.is_held("x"));
    }
}

#[test]
fn a_lease_that_never_expires_is_released_when_the_store_is_back() {
    let store = Store::new();
    let (running, turn) = never_released(&store, "0");
    thread::sleep(Duration::from_secs(7));
    drop(turn);
    let done = running.end();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(!store.is_held("x"));
}

#[test]
fn killed_with_9_we_take_the_command_along() {
    let store = Store::new();
    let script = "echo $$ > pid; while :; do sleep 0.05; done";
    let victim = store.start(&["run", "x", "--", "sh", "-c", script]);
    let pid: i32 = store.wait_for_file("pid").trim().parse().unwrap();
    victim.signal(Signal::KILL);
    drop(victim);
    eventually("the command is gone", || !is_alive(pid));
}

#[test]
fn the_loss_is_a_document_with_json() {
    let store = Store::new();
    let done = store.leasehold(&["run", "x", "--json", "--max-hold", "300ms", "--", "sleep", "30"]);
    assert_eq!(done.code, 79);
    assert_eq!(done.json()["error"]["kind"], "lost");
}
