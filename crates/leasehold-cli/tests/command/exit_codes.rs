//! Every row of the table of exit codes.

use std::fs;

use crate::support::{Store, bare, done, script};

#[test]
fn what_is_done_exits_with_0() {
    let store = Store::new();
    assert_eq!(store.leasehold(&["run", "x", "--", "true"]).code, 0);
    let ticket = store.acquire(&["x"]);
    assert_eq!(store.leasehold(&["check", "--ticket", &ticket]).code, 0);
    assert_eq!(store.leasehold(&["renew", "--ticket", &ticket]).code, 0);
    assert_eq!(store.leasehold(&["status", "x"]).code, 0);
    assert_eq!(store.leasehold(&["list"]).code, 0);
    assert_eq!(store.leasehold(&["release", "--ticket", &ticket]).code, 0);
    assert_eq!(store.leasehold(&["release", "--ticket", &ticket]).code, 0, "already, by this ticket");
}

#[test]
fn the_commands_own_exit_is_ours() {
    let store = Store::new();
    for code in [1, 7, 75, 79, 255] {
        let exit = format!("exit {code}");
        assert_eq!(store.leasehold(&["run", "x", "--", "sh", "-c", &exit]).code, code);
    }
    let ticket = store.acquire(&["y"]);
    assert_eq!(store.leasehold(&["keepalive", "--ticket", &ticket, "--", "sh", "-c", "exit 9"]).code, 9);
}

#[test]
fn a_command_that_a_signal_ended_is_128_and_the_signal() {
    let store = Store::new();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let kill = format!("kill -{signal} $$");
        assert_eq!(store.leasehold(&["run", "x", "--", "sh", "-c", &kill]).code, code);
    }
}

#[test]
fn bad_usage_is_64() {
    let store = Store::new();
    for args in [
        &["no-such-command"][..],
        &[],
        &["run", "x"],
        &["run", "--", "true"],
        &["run", "x", "true"],
        &["status", ""],
        &["status", "two\nlines"],
        &["run", "x", "--ttl", "30", "--", "true"],
        &["run", "x", "--ttl", "1ms", "--", "true"],
        &["run", "x", "--ttl", "9999days", "--", "true"],
        &["run", "x", "--wait", "-1s", "--", "true"],
        &["run", "x", "--grace", "11s", "--", "true"],
        &["run", "x", "--min-hold", "2s", "--max-hold", "1s", "--", "true"],
        &["run", "x", "--owner", "a\x07b", "--", "true"],
        &["run", "x", "--on-lost", "shrug", "--", "true"],
        &["break", "x"],
        &["break", "x", "--fence", "-1"],
        &["completions", "tcsh"],
        &["--store", "zookeeper://h", "list"],
        &["--store", "memory:", "list"],
        &["--store", "leases.db", "list"],
        &["--store", "sqlite:/x.db?mode=plain", "list"],
    ] {
        let done = store.leasehold(args);
        assert_eq!(done.code, 64, "{args:?}: {done:?}");
        assert!(done.out.is_empty(), "{args:?}: {done:?}");
        assert!(done.err.starts_with("leasehold: "), "{args:?}: {done:?}");
        assert!(done.err.contains("\nhint: "), "{args:?}: {done:?}");
    }
    let name = "x".repeat(513);
    assert_eq!(store.leasehold(&["status", &name]).code, 64);
    assert_eq!(store.leasehold(&["status", &name[1..]]).code, 0, "512 bytes are fine");
}

#[test]
fn a_store_that_holds_something_else_is_69() {
    let store = Store::new();
    fs::write(store.path("leases.db"), "not a database ".repeat(1000)).unwrap();
    let done = store.leasehold(&["run", "x", "--json", "--", "true"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert_eq!(done.json()["error"]["kind"], "corrupt");
    assert!(fs::read_to_string(store.path("leases.db")).unwrap().starts_with("not a database"), "nothing is changed");
}

#[test]
fn no_home_directory_is_64_with_a_way_out() {
    let done = done(bare(&["list"]).env_remove("HOME").env_remove("XDG_STATE_HOME"));
    assert_eq!(done.code, 64);
    assert!(done.err.contains("--store"), "{done:?}");
}

#[test]
fn held_by_another_is_75_and_names_the_holder() {
    let store = Store::new();
    store.acquire(&["x", "--owner", "somebody", "--reason", "good reasons"]);
    for patience in [&["--no-wait"][..], &["--wait", "100ms"]] {
        let mut args = vec!["run", "x"];
        args.extend(patience);
        args.extend(["--", "touch", "ran"]);
        let done = store.leasehold(&args);
        assert_eq!(done.code, 75, "{done:?}");
        for part in ["somebody", "good reasons", "since 20", "left"] {
            assert!(done.err.contains(part), "{part}: {done:?}");
        }
        assert!(!store.path("ran").exists());
    }
    let mut acquire = vec!["acquire", "x", "--no-wait"];
    assert_eq!(store.leasehold(&acquire).code, 75);
    acquire.push("--json");
    assert_eq!(store.leasehold(&acquire).json()["error"]["kind"], "contended");
}

#[test]
fn a_lease_that_is_no_longer_the_tickets_is_79() {
    let store = Store::new();
    let ticket = store.acquire(&["x", "--ttl", "100ms"]);
    std::thread::sleep(std::time::Duration::from_millis(150));
    for command in ["check", "renew", "release", "keepalive"] {
        let done = store.leasehold(&[command, "--ticket", &ticket]);
        assert_eq!(done.code, 79, "{command}: {done:?}");
    }
}

#[test]
fn a_command_that_cannot_be_executed_is_126_and_gives_the_lease_back() {
    let store = Store::new();
    fs::write(store.path("plain"), "text").unwrap();
    let plain = store.path("plain").display().to_string();
    let directory = store.path(".").display().to_string();
    for program in [&plain, &directory] {
        let done = store.leasehold(&["run", "x", "--", program]);
        assert_eq!(done.code, 126, "{done:?}");
        assert!(!store.is_held("x"));
    }
}

#[test]
fn a_command_that_is_not_found_is_127_and_gives_the_lease_back() {
    let store = Store::new();
    let orphan = script(&store, "orphan", "#!/no/such/interpreter\n");
    for program in ["no-such-command-anywhere", "/no/such/file", orphan.as_str()] {
        let done = store.leasehold(&["run", "x", "--min-hold", "1h", "--", program]);
        assert_eq!(done.code, 127, "{done:?}");
        assert!(done.err.contains(program), "{done:?}");
        assert!(!store.is_held("x"));
    }
    let ticket = store.acquire(&["x"]);
    assert_eq!(store.leasehold(&["keepalive", "--ticket", &ticket, "--", "/no/such/file"]).code, 127);
    assert!(store.is_held("x"), "it is not keepalive's to give back");
}
