//! Where the store and the ticket come from, and what is never told.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use crate::support::{Done, Store, bare, done};

fn with_stdin(command: &mut Command, text: &str) -> Done {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    Done::from(child.wait_with_output().unwrap())
}

#[test]
fn a_ticket_comes_by_argument_file_variable_or_stdin() {
    let store = Store::new();
    let ticket = store.acquire(&["x"]);
    fs::write(store.path("ticket"), format!("{ticket}\n")).unwrap();
    assert_eq!(store.leasehold(&["check", "--ticket", &ticket]).code, 0);
    assert_eq!(store.leasehold(&["check", "--ticket-file", "ticket"]).code, 0);
    assert_eq!(done(store.command(&["check"]).env("LEASEHOLD_TICKET", &ticket)).code, 0);
    assert_eq!(with_stdin(&mut store.command(&["check", "--ticket", "-"]), &format!("{ticket}\n")).code, 0);
    let both = done(store.command(&["check", "--ticket", &ticket]).env("LEASEHOLD_TICKET", "lease1.other"));
    assert_eq!(both.code, 0, "what is typed goes before what is around: {both:?}");
}

#[test]
fn a_ticket_that_is_missing_empty_damaged_or_doubtful_is_64() {
    let store = Store::new();
    let ticket = store.acquire(&["x"]);
    fs::write(store.path("empty"), "").unwrap();
    fs::write(store.path("binary"), [0xff, 0xfe, 0x00]).unwrap();
    fs::write(store.path("long"), "lease1.".repeat(100_000)).unwrap();
    fs::write(store.path("ticket"), &ticket).unwrap();
    let cut = &ticket[..ticket.len() - 10];
    for args in [
        &["check"][..],
        &["check", "--ticket", ""],
        &["check", "--ticket", "nonsense"],
        &["check", "--ticket", cut],
        &["check", "--ticket-file", "empty"],
        &["check", "--ticket-file", "binary"],
        &["check", "--ticket-file", "long"],
        &["check", "--ticket-file", "not there"],
        &["check", "--ticket", &ticket, "--ticket-file", "ticket"],
    ] {
        let done = store.leasehold(args);
        assert_eq!(done.code, 64, "{args:?}: {done:?}");
        assert!(!done.err.contains(cut), "a secret is repeated: {done:?}");
    }
    let empty = done(store.command(&["check"]).env("LEASEHOLD_TICKET", ""));
    assert_eq!(empty.code, 64, "{empty:?}");
    assert_eq!(with_stdin(&mut store.command(&["check", "--ticket", "-"]), "").code, 64);
}

#[test]
fn a_ticket_without_the_right_or_of_another_store_is_64() {
    let store = Store::new();
    let done = store.leasehold(&["run", "x", "--", "sh", "-c", r#""$0" release"#, env!("CARGO_BIN_EXE_leasehold")]);
    assert_eq!(done.code, 64, "the command's ticket may not release: {done:?}");
    let ticket = store.acquire(&["x"]);
    let other = Store::new();
    for command in ["check", "renew", "release", "keepalive"] {
        let done = other.leasehold(&[command, "--ticket", &ticket]);
        assert_eq!(done.code, 64, "{command}: {done:?}");
    }
    assert!(store.is_held("x"));
}

#[test]
fn the_store_is_the_argument_then_the_variable_then_a_file_of_this_user() {
    let store = Store::new();
    let other = Store::new();
    store.acquire(&["x"]);
    let names = |done: Done| done.out;
    assert_ne!(names(store.leasehold(&["list", "--json"])), "");
    assert_eq!(names(store.leasehold(&["--store", &other.url(), "list", "--json"])), "");

    let home = Store::new();
    let acquire = done(bare(&["acquire", "x"]).env("XDG_STATE_HOME", home.path("state")));
    assert_eq!(acquire.code, 0, "{acquire:?}");
    let file = home.path("state/leasehold/leases.db");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let acquire = done(bare(&["acquire", "x"]).env_remove("XDG_STATE_HOME").env("HOME", home.path("home")));
    assert_eq!(acquire.code, 0, "{acquire:?}");
    assert!(home.path("home/.local/state/leasehold/leases.db").exists());
}

#[test]
fn an_empty_store_is_refused_and_not_replaced_by_another() {
    for command in [bare(&["--store", "", "list"]).env("HOME", "/nowhere"), bare(&["list"]).env("LEASEHOLD_STORE", "")]
    {
        let done = done(command);
        assert_eq!(done.code, 64, "{done:?}");
        assert!(done.err.contains("empty"), "{done:?}");
    }
}

#[test]
fn a_password_is_never_printed() {
    let url = "redis://me:hunter2@host:1/0";
    for args in [
        &["--store", url, "list"][..],
        &["--json", "--store", url, "list"],
        &["list", "a", url],
        &["--json", "list", "a", url],
        &["status", "x", "--stroe", url],
    ] {
        let done = done(&mut bare(args));
        assert_eq!(done.code, 64, "{done:?}");
        assert!(!done.out.contains("hunter2") && !done.err.contains("hunter2"), "{done:?}");
    }
    let done = done(bare(&["list"]).env("LEASEHOLD_STORE", url).env("LEASEHOLD_LOG", "trace"));
    assert!(!done.out.contains("hunter2") && !done.err.contains("hunter2"), "{done:?}");
}

#[test]
fn logs_come_only_when_asked_for_and_on_stderr() {
    let store = Store::new();
    let quiet = store.leasehold(&["run", "x", "--", "true"]);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
    let loud = done(store.command(&["run", "x", "--", "true"]).env("LEASEHOLD_LOG", "debug"));
    assert_eq!(loud.out, "");
    assert!(loud.err.contains("acquired"), "{loud:?}");
    let ticket = store.acquire(&["y"]);
    let traced = done(store.command(&["renew", "--ticket", &ticket]).env("LEASEHOLD_LOG", "trace"));
    assert!(!traced.err.contains(&ticket), "a ticket is a secret: {traced:?}");
    assert_eq!(done(store.command(&["list"]).env("LEASEHOLD_LOG", "[nonsense")).code, 64);
}

#[test]
fn a_ticket_at_the_wrong_place_is_not_repeated() {
    let store = Store::new();
    let ticket = store.acquire(&["x"]);
    let option = format!("--tickets={ticket}");
    for args in [&["check", &ticket][..], &["--json", "check", &ticket], &[&ticket], &["renew", &option]] {
        let done = store.leasehold(args);
        assert_eq!(done.code, 64, "{done:?}");
        assert!(!done.out.contains(&ticket) && !done.err.contains(&ticket), "{done:?}");
        assert!(
            args.contains(&option.as_str()) || (done.out + &done.err).contains("lease1.…"),
            "what was wrong is said"
        );
    }
}

#[test]
fn a_store_that_would_be_refused_is_not_offered() {
    for url in ["zookeeper://h", "leases.db"] {
        let done = done(&mut bare(&["--store", url, "list"]));
        assert!(done.err.contains("this build has sqlite:"), "{done:?}");
        assert!(!done.err.contains("memory"), "{done:?}");
    }
}

#[test]
fn a_ticket_whose_reader_is_gone_is_given_back() {
    let store = Store::new();
    for json in [&[][..], &["--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = store.command(&["acquire", "x"]);
        let child = command.args(json).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let done = Done::from(child.wait_with_output().unwrap());
        assert_eq!(done.code, 69, "{done:?}");
        assert!(done.err.contains("given back"), "{done:?}");
        assert!(!store.is_held("x"));
    }
}

#[test]
fn a_ticket_that_could_not_be_printed_is_given_back() {
    let store = Store::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = store.command(&["acquire", "x"]).stdout(full).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(69));
    assert!(!store.is_held("x"));
}
