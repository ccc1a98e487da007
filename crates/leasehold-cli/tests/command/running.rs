//! `run`: what the command gets, and what becomes of the lease.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::support::{Store, bare, done, eventually, is_alive};

#[test]
fn the_command_has_our_input_output_and_error() {
    let store = Store::new();
    fs::write(store.path("in"), "from stdin").unwrap();
    let mut command = store.command(&["run", "x", "--", "sh", "-c", "cat; echo to stderr >&2"]);
    let done = done(command.stdin(fs::File::open(store.path("in")).unwrap()));
    assert_eq!(done.out, "from stdin");
    assert_eq!(done.err, "to stderr\n");
}

#[test]
fn the_command_knows_its_lease() {
    let store = Store::new();
    let done = store.leasehold(&["run", "a/b", "--", "env"]);
    let variable = |name: &str| {
        let start = format!("{name}=");
        let line = done.out.lines().find(|line| line.starts_with(&start));
        line.unwrap_or_else(|| panic!("{name} is missing: {done:?}"))[start.len()..].to_owned()
    };
    assert_eq!(variable("LEASEHOLD_NAME"), "a/b");
    assert!(variable("LEASEHOLD_FENCE").parse::<u64>().is_ok());
    assert!(variable("LEASEHOLD_TICKET").starts_with("lease1."));
    assert_eq!(variable("LEASEHOLD_STORE"), store.url(), "as we were given it");
}

#[test]
fn the_fence_grows_from_run_to_run() {
    let store = Store::new();
    let fence = || -> u64 {
        let done = store.leasehold(&["run", "x", "--", "sh", "-c", "echo $LEASEHOLD_FENCE"]);
        done.out.trim().parse().unwrap()
    };
    let first = fence();
    assert!(fence() > first);
}

#[test]
fn the_command_may_renew_and_check_but_not_release() {
    let store = Store::new();
    let script = r#""$0" check && "$0" renew && ! "$0" release"#;
    let done = store.leasehold(&["run", "x", "--", "sh", "-c", script, env!("CARGO_BIN_EXE_leasehold")]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn the_command_finds_the_store_that_was_named_by_argument_or_default() {
    let store = Store::new();
    let print = ["run", "x", "--", "sh", "-c", "echo $LEASEHOLD_STORE"];
    let mut args = vec!["--store"];
    let url = store.url();
    args.push(&url);
    args.extend(print);
    assert_eq!(done(bare(&args).env("LEASEHOLD_STORE", "sqlite:/other.db")).out.trim(), url);
    let default = done(bare(&print).env("XDG_STATE_HOME", store.path("state")));
    assert_eq!(default.out.trim(), format!("sqlite:{}", store.path("state/leasehold/leases.db").display()));
}

#[test]
fn no_descriptor_of_ours_leaks_into_the_command() {
    let store = Store::new();
    let list = ["sh", "-c", "ls /proc/self/fd | sort -n | tr '\\n' ' '"];
    let without =
        std::process::Command::new(list[0]).args(&list[1..]).stdin(std::process::Stdio::null()).output().unwrap();
    let mut args = vec!["run", "x", "--"];
    args.extend(list);
    let with = store.leasehold(&args);
    assert_eq!(with.out, String::from_utf8(without.stdout).unwrap());
}

#[test]
fn the_command_finds_signals_as_we_found_them() {
    let store = Store::new();
    let show = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    // The numbers from 32 on are for the threads of the C library.
    let sets = |text: &str| -> Vec<u64> {
        let sets = text.split_whitespace().skip(1).step_by(2);
        sets.map(|set| u64::from_str_radix(set, 16).unwrap() & 0x7fff_ffff).collect()
    };
    let without = std::process::Command::new(show[0]).args(&show[1..]).output().unwrap();
    let mut args = vec!["run", "x", "--"];
    args.extend(show);
    let with = sets(&store.leasehold(&args).out);
    assert_eq!(with.len(), 2);
    assert_eq!(with, sets(std::str::from_utf8(&without.stdout).unwrap()));
}

#[test]
fn a_store_named_by_a_relative_path_is_found_from_everywhere() {
    let store = Store::new();
    let script = r#"cd / && "$0" check"#;
    let args = ["--store", "sqlite:here.db", "run", "x", "--", "sh", "-c", script, env!("CARGO_BIN_EXE_leasehold")];
    let done = store.leasehold(&args);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn the_command_leads_a_process_group_of_its_own() {
    let store = Store::new();
    let done = store.leasehold(&["run", "x", "--", "sh", "-c", "echo $$; cut -d' ' -f5 /proc/$$/stat"]);
    let mut lines = done.out.lines().map(str::trim);
    assert_eq!(lines.next(), lines.next());
}

#[test]
fn the_lease_is_held_while_the_command_runs_and_free_after() {
    let store = Store::new();
    let running = store.start(&["run", "x", "--ttl", "600ms", "--", "sleep", "2"]);
    eventually("it is held", || store.is_held("x"));
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1200) {
        assert!(store.is_held("x"), "it is renewed");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(running.end().code, 0);
    assert!(!store.is_held("x"));
}

#[test]
fn a_grandchild_that_outlives_the_command_does_not_hold_the_lease() {
    let store = Store::new();
    let script = "sleep 30 >/dev/null 2>&1 & echo $! > pid";
    assert_eq!(store.leasehold(&["run", "x", "--", "sh", "-c", script]).code, 0);
    let pid: i32 = store.wait_for_file("pid").trim().parse().unwrap();
    assert!(is_alive(pid), "it is not killed");
    assert!(!store.is_held("x"));
    assert_eq!(store.leasehold(&["run", "x", "--no-wait", "--", "true"]).code, 0);
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_shortest_hold_outlasts_the_command() {
    let store = Store::new();
    let start = Instant::now();
    assert_eq!(store.leasehold(&["run", "x", "--min-hold", "2s", "--", "true"]).code, 0);
    let second = store.leasehold(&["run", "x", "--no-wait", "--min-hold", "2s", "--", "true"]);
    // On a machine that took two seconds for this, there is nothing to see.
    if start.elapsed() < Duration::from_secs(2) {
        assert_eq!(second.code, 75, "once per period: {second:?}");
        assert_eq!(store.leasehold(&["run", "x", "--", "true"]).code, 0);
        assert!(start.elapsed() >= Duration::from_secs(2), "the lease ends then, not before");
    }
}

#[test]
fn sixty_increments_by_four_at_once_are_not_lost() {
    let store = Store::new();
    fs::write(store.path("count"), "0\n").unwrap();
    let script = "n=$(cat count); echo $((n+1)) > count";
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let commands: Vec<_> =
                (0..15).map(|_| store.command(&["run", "count", "--", "sh", "-c", script])).collect();
            std::thread::spawn(move || {
                for mut command in commands {
                    assert!(command.status().unwrap().success());
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(fs::read_to_string(store.path("count")).unwrap(), "60\n");
}
