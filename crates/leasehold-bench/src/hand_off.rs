//! From the call of release to acquired by a waiter in another process.
//!
//! A hand-off is a single event after a while of nothing: caches are cold, and so they are for the limits here, each of
//! which is measured after the same pause. The same limits in a tight loop are shown beside them.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use leasehold::blocking;

use crate::measure::{Bare, heading, pin, show, time};

const HAND_OFFS: usize = 1500;
const PAUSE: Duration = Duration::from_micros(300);

pub(crate) fn run() {
    heading();
    pin();
    let dir = tempfile::tempdir().expect("a directory");

    let mut hot_commits = commits(dir.path(), Duration::ZERO);
    let mut hot_round_trips = round_trips(dir.path(), Duration::ZERO);
    let mut commits = commits(dir.path(), PAUSE);
    let mut round_trips = round_trips(dir.path(), PAUSE);
    let mut ours = hand_offs(dir.path());
    show("bare commit, in a tight loop", &mut hot_commits);
    show("datagram there and back, in a tight loop", &mut hot_round_trips);
    let commit = show("limit: bare commit", &mut commits);
    let round_trip = show("limit: datagram there and back", &mut round_trips);
    let ours = show("release to acquired, other process", &mut ours);
    let (floor, goal) = (2.0 * commit + 5.0 * round_trip, commit + 3.0 * round_trip);
    println!("floor: two commits + 5 round trips           {floor:>9.1} µs   ours / floor {:.2}", ours / floor);
    println!("goal:  one commit + 3 round trips            {goal:>9.1} µs   ours / goal  {:.2}", ours / goal);
}

fn commits(dir: &Path, pause: Duration) -> Vec<Duration> {
    let bare = Bare::open(&dir.join("bare.db"));
    (0..2000)
        .map(|_| {
            std::thread::sleep(pause);
            time(|| bare.commit(&[7; 100]))
        })
        .collect()
}

fn round_trips(dir: &Path, pause: Duration) -> Vec<Duration> {
    let (here, there) = (dir.join(format!("here {pause:?}")), dir.join(format!("there {pause:?}")));
    let socket = UnixDatagram::bind(&here).expect("binds");
    let mut peer = start("echo-peer", &[&here.display().to_string(), &there.display().to_string()]);
    let mut buffer = [0; 64];
    // The peer says that it is there.
    socket.recv(&mut buffer).expect("the peer answers");
    let samples = (0..2000)
        .map(|_| {
            std::thread::sleep(pause);
            time(|| {
                socket.send_to(b"ping", &there).expect("sends");
                socket.recv(&mut buffer).expect("comes back");
            })
        })
        .collect();
    peer.kill().expect("is ours");
    peer.wait().expect("ends");
    samples
}

pub(crate) fn echo(args: &[String]) {
    let socket = UnixDatagram::bind(&args[1]).expect("binds");
    let mut buffer = [0; 64];
    while socket.send_to(b"pong", &args[0]).is_ok() {
        socket.recv(&mut buffer).expect("receives");
    }
}

/// Two processes pass one name to and fro. Each says when it got it and when it let go, on the host's one clock.
fn hand_offs(dir: &Path) -> Vec<Duration> {
    let url = format!("sqlite:{}", dir.join("leases.db").display());
    let mut peers: Vec<Child> = (0..2).map(|_| start("hand-off-peer", &[&url])).collect();
    let mut released = HashMap::new();
    let mut acquired = HashMap::new();
    for peer in &mut peers {
        for line in BufReader::new(peer.stdout.take().expect("piped")).lines() {
            let numbers: Vec<u64> =
                line.expect("text").split(' ').map(|number| number.parse().expect("a number")).collect();
            let [fence, got, let_go] = numbers[..] else { panic!("three numbers") };
            acquired.insert(fence, got);
            released.insert(fence, let_go);
        }
        assert!(peer.wait().expect("ends").success());
    }
    let mut samples: Vec<(u64, Duration)> = released
        .iter()
        .filter_map(|(fence, let_go)| {
            acquired.get(&(fence + 1)).map(|got| (*fence, Duration::from_nanos(got.saturating_sub(*let_go))))
        })
        .collect();
    samples.sort_unstable();
    samples.into_iter().skip(50).map(|(_, sample)| sample).collect()
}

pub(crate) fn peer(args: &[String]) {
    let client = blocking::open(&args[0]).expect("opens");
    let lock = client.lock("x").expect("a name");
    let name = lock.name().clone();
    let mut lines = Vec::with_capacity(HAND_OFFS);
    for round in 0..HAND_OFFS {
        let lease = lock.acquire().expect("in time");
        let got = client.now().nanos();
        // Let the other take its place in the queue before we let go; at the end there is no other.
        let seen = (0..200).any(|_| {
            std::thread::sleep(PAUSE);
            client.inspect(&name).expect("reachable").queue.is_some_and(|queue| !queue.is_empty())
        });
        let let_go = client.now().nanos();
        let fence = lease.fence().expect("the embedded store has fences");
        lease.release().expect("reachable");
        // What we do next is not part of the hand-off: leave the core to the other.
        std::thread::sleep(PAUSE);
        if seen {
            lines.push(format!("{fence} {got} {let_go}"));
        } else if round > 50 {
            break;
        }
    }
    client.close();
    std::io::stdout().write_all((lines.join("\n") + "\n").as_bytes()).expect("the parent reads");
}

pub(crate) fn start(case: &str, args: &[&str]) -> Child {
    let own = std::env::current_exe().expect("we run");
    Command::new(own).arg(case).args(args).stdout(Stdio::piped()).spawn().expect("starts")
}
