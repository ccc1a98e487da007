//! `keepalive`: a second owner.

use std::{thread, time::Duration};

use rustix::process::Signal;

use crate::support::{Store, eventually, is_alive};

#[test]
fn it_keeps_the_lease_alive_until_it_is_stopped_and_never_releases() {
    for signal in [Signal::INT, Signal::TERM] {
        let store = Store::new();
        let ticket = store.acquire(&["x", "--ttl", "600ms"]);
        let keeper = store.start(&["keepalive", "--ticket", &ticket]);
        for _ in 0..15 {
            thread::sleep(Duration::from_millis(100));
            assert!(store.is_held("x"));
        }
        keeper.signal(signal);
        let done = keeper.end();
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(store.leasehold(&["check", "--ticket", &ticket]).code, 0, "it is still held");
    }
}

#[test]
fn while_its_command_runs_and_exits_as_it_did() {
    let store = Store::new();
    let ticket = store.acquire(&["x", "--ttl", "600ms"]);
    let done = store.leasehold(&[
        "keepalive",
        "--ticket",
        &ticket,
        "--",
        "sh",
        "-c",
        "sleep 1.5; echo $LEASEHOLD_NAME; exit 4",
    ]);
    assert_eq!((done.code, done.out.as_str()), (4, "x\n"), "{done:?}");
    assert_eq!(store.leasehold(&["check", "--ticket", &ticket]).code, 0, "it is still held");
}

#[test]
fn it_is_79_when_the_lease_is_released_or_broken() {
    for how in ["released", "broken"] {
        let store = Store::new();
        let ticket = store.acquire(&["x", "--ttl", "900ms"]);
        let alone = store.start(&["keepalive", "--ticket", &ticket]);
        let script = "echo $$ > pid; while :; do sleep 0.05; done";
        let with_command = store.start(&["keepalive", "--ticket", &ticket, "--", "sh", "-c", script]);
        let pid: i32 = store.wait_for_file("pid").trim().parse().unwrap();
        if how == "released" {
            assert_eq!(store.leasehold(&["release", "--ticket", &ticket]).code, 0);
        } else {
            let fence = store.status("x")["holders"][0]["fence"].to_string();
            assert_eq!(store.leasehold(&["break", "x", "--fence", &fence]).code, 0);
        }
        let done = with_command.end();
        assert_eq!(done.code, 79, "{how}: {done:?}");
        assert!(!is_alive(pid));
        let done = alone.end();
        assert_eq!(done.code, 79, "{how}: {done:?}");
    }
}

#[test]
fn signals_are_its_commands_if_it_has_one() {
    let store = Store::new();
    let ticket = store.acquire(&["x"]);
    let script = "trap 'exit 6' TERM; echo > up; while :; do sleep 0.02; done";
    let keeper = store.start(&["keepalive", "--ticket", &ticket, "--", "sh", "-c", script]);
    store.wait_for_file("up");
    keeper.signal(Signal::TERM);
    assert_eq!(keeper.end().code, 6);
}

#[test]
fn the_commands_of_run_can_have_a_second_owner() {
    let store = Store::new();
    let script = r#""$0" keepalive & k=$!; echo > up; sleep 1; kill $k; wait $k"#;
    let running =
        store.start(&["run", "x", "--ttl", "600ms", "--", "sh", "-c", script, env!("CARGO_BIN_EXE_leasehold")]);
    store.wait_for_file("up");
    eventually("held", || store.is_held("x"));
    assert_eq!(running.end().code, 0);
}
