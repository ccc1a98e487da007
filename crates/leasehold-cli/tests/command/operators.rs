//! `status`, `list` and `break`, as people use them.

use crate::support::{Store, done, eventually};

fn fence(store: &Store) -> u64 {
    store.status("x")["holders"][0]["fence"].as_u64().unwrap()
}

#[test]
fn a_break_refuses_renewals_and_the_name_is_free_when_its_time_is_up() {
    let store = Store::new();
    let ticket = store.acquire(&["x", "--ttl", "1s"]);
    let done = store.leasehold(&["break", "x", "--fence", &fence(&store).to_string()]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("may not renew"), "{done:?}");
    assert_eq!(store.leasehold(&["renew", "--ticket", &ticket]).code, 79);
    eventually("it is free", || !store.is_held("x"));
}

#[test]
fn a_break_now_frees_at_once_and_warns() {
    let store = Store::new();
    store.acquire(&["x", "--ttl", "never"]);
    let done = store.leasehold(&["break", "x", "--now", "--json", "--fence", &fence(&store).to_string()]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains("may still be at work"), "{done:?}");
    let document = done.json();
    assert_eq!(document["broken"], true);
    assert_eq!(document["free_in_ms"], 0);
    assert_eq!(store.leasehold(&["run", "x", "--no-wait", "--", "true"]).code, 0);
}

#[test]
fn a_newer_holder_is_untouched() {
    let store = Store::new();
    let first = store.acquire(&["x"]);
    let old = fence(&store);
    store.leasehold(&["release", "--ticket", &first]);
    let none = store.leasehold(&["break", "x", "--fence", &old.to_string()]);
    assert_eq!(none.code, 79, "nobody holds it: {none:?}");
    let second = store.acquire(&["x"]);
    for args in [&["break", "x"][..], &["break", "x", "--now"]] {
        let mut args = args.to_vec();
        let old = old.to_string();
        args.extend(["--fence", &old]);
        let done = store.leasehold(&args);
        assert_eq!(done.code, 79, "{done:?}");
        assert!(done.err.contains(&fence(&store).to_string()), "{done:?}");
    }
    assert_eq!(store.leasehold(&["renew", "--ticket", &second]).code, 0);
}

#[test]
fn status_is_for_people_without_json() {
    let store = Store::new();
    assert_eq!(store.leasehold(&["status", "x"]).out, "x is free\n");
    store.acquire(&["x", "--owner", "deploy bot", "--reason", "release 1.4"]);
    let waiter = store.start(&["run", "x", "--owner", "the next", "--", "true"]);
    let mut out = String::new();
    eventually("the waiter shows", || {
        out = store.leasehold(&["status", "x"]).out;
        out.contains("the next")
    });
    for part in ["x is held\n", "deploy bot", "release 1.4", &fence(&store).to_string(), "1. the next, waiting "] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains('\x1b'), "no colours off a terminal");
    drop(waiter);
}

#[test]
fn list_is_an_aligned_table() {
    let store = Store::new();
    let empty = store.leasehold(&["list"]);
    assert_eq!(empty.out, "");
    store.acquire(&["a-name-that-is-long", "--owner", "one"]);
    store.acquire(&["b", "--owner", "two"]);
    let out = store.leasehold(&["list"]).out;
    let columns: Vec<_> = ["OWNER", "one", "two"]
        .iter()
        .map(|word| {
            let line = out.lines().find(|line| line.contains(word)).unwrap();
            line.find(word).unwrap()
        })
        .collect();
    assert!(columns.iter().all(|column| *column == columns[0]), "{out}");
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let store = Store::new();
    store.acquire(&["x"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = store.command(&["list"]);
    command.stdout(writer).stderr(std::process::Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn an_earlier_run_of_the_same_work_is_attached_to() {
    let store = Store::new();
    let first = store.leasehold(&["acquire", "x", "--json", "--attach", "job-1"]).json();
    let other = store.leasehold(&["acquire", "x", "--no-wait", "--attach", "job-2"]);
    assert_eq!(other.code, 75, "{other:?}");
    let again = store.leasehold(&["acquire", "x", "--json", "--no-wait", "--attach", "job-1"]).json();
    assert_eq!(first["fence"], again["fence"]);
    let overtaken = done(store.command(&["renew"]).env("LEASEHOLD_TICKET", first["ticket"].as_str().unwrap()));
    assert_eq!(overtaken.code, 79, "the earlier one is told: {overtaken:?}");
    let owner = done(store.command(&["renew"]).env("LEASEHOLD_TICKET", again["ticket"].as_str().unwrap()));
    assert_eq!(owner.code, 0, "{owner:?}");
}
