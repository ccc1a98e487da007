//! Signals that are sent to us.

use std::process::Command;

use rustix::process::Signal;

use crate::support::{Running, Store, eventually, is_alive};

const TRAPS: &str = r#"
for s in INT TERM HUP QUIT USR1 USR2; do trap "echo $s >> heard" $s; done
echo $$ > pid
while ! [ -e go ]; do sleep 0.02; done"#;

#[test]
fn six_signals_are_passed_on() {
    let store = Store::new();
    let running = store.start(&["run", "x", "--", "bash", "-c", TRAPS]);
    store.wait_for_file("pid");
    let signals = [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    for (signal, name) in signals {
        running.signal(signal);
        eventually(name, || {
            std::fs::read_to_string(store.path("heard")).unwrap_or_default().ends_with(&format!("{name}\n"))
        });
    }
    std::fs::write(store.path("go"), "").unwrap();
    assert_eq!(running.end().code, 0, "the command's own end counts");
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let store = Store::new();
    let script = "sh -c 'echo $$ > child; exec sleep 30' & wait";
    let running = store.start(&["run", "x", "--", "sh", "-c", script]);
    let child: i32 = store.wait_for_file("child").trim().parse().unwrap();
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, 143);
    eventually("the child is gone", || !is_alive(child));
    assert!(!store.is_held("x"));
}

#[test]
fn while_waiting_a_signal_leaves_the_queue_at_once() {
    let store = Store::new();
    store.acquire(&["x"]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for command in [&["run", "x", "--", "touch", "ran"][..], &["acquire", "x"]] {
            let running = store.start(command);
            let waiters = || store.status("x")["queue"].as_array().unwrap().len();
            eventually("it waits", || waiters() == 1);
            running.signal(signal);
            assert_eq!(running.end().code, code);
            assert_eq!(waiters(), 0, "nobody has to pass it over");
        }
    }
    assert!(!store.path("ran").exists());
}

#[test]
fn what_we_were_told_to_ignore_the_command_ignores_too() {
    let store = Store::new();
    store.acquire(&["x", "--ttl", "2s"]);
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_leasehold")).args([
        "run",
        "x",
        "--",
        "sh",
        "-c",
        "echo $$ > pid; sleep 1; echo well",
    ]);
    command.env("LEASEHOLD_STORE", store.url()).current_dir(store.path(".")).stdin(std::process::Stdio::null());
    let running = Running::start(command);
    eventually("it waits", || store.status("x")["queue"].as_array().unwrap().len() == 1);
    running.signal(Signal::HUP);
    store.wait_for_file("pid");
    running.signal(Signal::HUP);
    let done = running.end();
    assert_eq!((done.code, done.out.as_str()), (0, "well\n"), "{done:?}");
}

#[test]
fn a_stop_of_the_command_alone_does_not_stop_us() {
    let store = Store::new();
    let running =
        store.start(&["run", "x", "--ttl", "600ms", "--", "sh", "-c", "echo $$ > pid; kill -STOP $$; echo on"]);
    let pid: i32 = store.wait_for_file("pid").trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(900));
    assert!(store.is_held("x"), "somebody must watch over the lease");
    rustix::process::kill_process(pid, Signal::CONT).unwrap();
    let done = running.end();
    assert_eq!((done.code, done.out.as_str()), (0, "on\n"), "{done:?}");
}
