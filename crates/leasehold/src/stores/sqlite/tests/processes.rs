//! Other processes: this test binary, started again with a task.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command as Process, Stdio},
    thread,
};

use super::*;
use crate::error::ErrorKind;

/// This binary, about to do `task` with the database at `path`.
pub(super) fn again(task: &str, path: &Path) -> Process {
    let mut process = Process::new(std::env::current_exe().unwrap());
    process.args(["--exact", "stores::sqlite::tests::processes::what_another_process_does", "--nocapture"]);
    process.env("LEASEHOLD_TEST_TASK", task).env("LEASEHOLD_TEST_PATH", path);
    process
}

/// Does nothing unless another test started it.
#[test]
fn what_another_process_does() {
    let (Some(task), Some(path)) = (std::env::var_os("LEASEHOLD_TEST_TASK"), std::env::var_os("LEASEHOLD_TEST_PATH"))
    else {
        return;
    };
    let path = PathBuf::from(path);
    match task.to_str().unwrap() {
        "expect refused" => opening::expect_refused(&path),
        "expect one name only" => opening::expect_one_name_only(&path),
        "fill the disk" => opening::fill_the_disk(&path),
        "run out of files" => opening::run_out_of_files(&path),
        "take turns" => take_turns(&path),
        "obey" => obey(&path),
        other => panic!("no task {other}"),
    }
    println!("\n@done");
}

/// Another process that does what it is told, one line at a time.
pub(super) struct Peer {
    pub(super) process: Child,
    orders: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Peer {
    pub(super) fn start(path: &Path) -> Self {
        let mut process = again("obey", path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = process.stdin.take().unwrap();
        let replies = BufReader::new(process.stdout.take().unwrap());
        Self { process, orders, replies }
    }

    pub(super) fn order(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.replies.read_line(&mut line).unwrap(), 0, "the other process ended");
            if let Some(reply) = line.trim_end().split_once('@') {
                return reply.1.to_owned();
            }
        }
    }

    pub(super) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn obey(path: &Path) {
    let entropy = crate::entropy::SystemEntropy;
    let store = super::super::open(path.to_str().unwrap(), SystemClock::shared(), &entropy).unwrap();
    for order in std::io::stdin().lines() {
        let order = order.unwrap();
        let [verb, name, bits] = order.split(' ').collect::<Vec<_>>()[..] else { panic!("{order}") };
        let bits = bits.parse().unwrap();
        let reply = match verb {
            "claim" => format!("{:?}", ask(&*store, name, queueing(&*store, bits)).unwrap()),
            "forever" => {
                format!("{:?}", ask(&*store, name, Claim { ttl: Span::NEVER, ..claim(bits) }).unwrap())
            }
            "release" => format!("{:?}", ask(&*store, name, release(bits)).unwrap()),
            "hint" => format!("{:?}", waking::hint(&*store)),
            other => panic!("no order {other}"),
        };
        println!("@{reply}");
    }
}

const TURNS: u128 = 300;

/// Names of its own, and one that all want.
fn take_turns(path: &Path) {
    let entropy = crate::entropy::SystemEntropy;
    let store = super::super::open(path.to_str().unwrap(), SystemClock::shared(), &entropy).unwrap();
    let base = u128::from(std::process::id()) << 32;
    let mut last = 0;
    for turn in 0..TURNS {
        let fence = once(&*store, &format!("own/{}", std::process::id()), base + turn);
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        match ask(&*store, "common", claim(base + turn)).unwrap() {
            ClaimReply::Granted(grant) => {
                println!("@fence {}", grant.fence);
                ask(&*store, "common", release(base + turn)).unwrap();
            }
            ClaimReply::Held(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn eight_processes_write_at_once_and_none_is_turned_away() {
    let room = Room::new();
    let started: Vec<Child> =
        (0..8).map(|_| again("take turns", &room.path).stdout(Stdio::piped()).spawn().unwrap()).collect();
    let mut fences = Vec::new();
    for process in started {
        let output = process.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("@done"), "{text}");
        let own = text.lines().filter_map(|line| line.split_once("@fence ")).map(|(_, fence)| fence.parse().unwrap());
        fences.extend(own.collect::<Vec<u64>>());
    }
    let count = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), count, "two grants had the same fence");
    assert!(count > 0);
}

#[test]
fn eight_threads_with_one_store_or_eight_write_at_once() {
    let room = Room::new();
    let shared: Arc<dyn Store> = Arc::new(room.open());
    for apart in [false, true] {
        let fences: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8u128)
                .map(|thread| {
                    let store = if apart { Arc::new(room.open()) } else { shared.clone() };
                    scope.spawn(move || {
                        let bits = |turn: u128| thread << 64 | turn << 1 | u128::from(apart);
                        let own = format!("own/{thread}");
                        let mut fences = Vec::new();
                        for turn in 0..200 {
                            once(&*store, &own, bits(turn));
                            if let ClaimReply::Granted(grant) = ask(&*store, "common", claim(bits(turn))).unwrap() {
                                fences.push(grant.fence);
                                ask(&*store, "common", release(bits(turn))).unwrap();
                            }
                        }
                        fences
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let mut unique = fences.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), fences.len(), "two grants had the same fence");
    }
}

#[test]
fn many_processes_that_make_the_database_at_once_make_one() {
    let room = Room::new();
    let mut peers: Vec<Peer> = (0..6).map(|_| Peer::start(&room.path)).collect();
    for (number, peer) in peers.iter_mut().enumerate() {
        let reply = peer.order(&format!("claim a {}", number + 1));
        assert_eq!(reply.starts_with("Granted"), number == 0, "{reply}");
    }
}

#[test]
fn a_program_that_keeps_the_database_locked_is_waited_for_a_while() {
    let room = Room::new();
    let store = room.open();
    let raw = room.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = ask(&store, "a", claim(1)).unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.is_transient(), "{error}");
    assert!(pollster::block_on(store.inspect(&name("a"))).unwrap().holders.is_empty(), "readers do not wait");

    thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(&store, "a", claim(1)).unwrap());
        thread::park_timeout(std::time::Duration::from_millis(100));
        raw.execute_batch("COMMIT").unwrap();
        granted(waiting.join().unwrap());
    });
}
