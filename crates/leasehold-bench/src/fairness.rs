//! Eight processes on one name: does each get its share, and does anyone wait long?

use std::{
    io::{BufRead, BufReader, Write},
    process::Child,
    time::{Duration, Instant},
};

use leasehold::blocking;

use crate::{
    hand_off::start,
    measure::{heading, micros, pin},
};

const PROCESSES: usize = 8;
const SPAN: Duration = Duration::from_secs(10);

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn run() {
    heading();
    pin();
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", dir.path().join("leases.db").display());
    // Opened once, so that all begin together.
    drop(blocking::open(&url).expect("opens"));
    let mut peers: Vec<Child> = (0..PROCESSES).map(|_| start("fairness-peer", &[&url])).collect();
    let mut counts = Vec::new();
    let mut waits: Vec<Duration> = Vec::new();
    for peer in &mut peers {
        let own: Vec<Duration> = BufReader::new(peer.stdout.take().expect("piped"))
            .lines()
            .map(|line| Duration::from_nanos(line.expect("text").parse().expect("a number")))
            .collect();
        assert!(peer.wait().expect("ends").success());
        counts.push(own.len());
        waits.extend(own);
    }
    let total: usize = counts.iter().sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    let jain = (total as f64).powi(2) / (PROCESSES as f64 * squares);
    let mean = waits.iter().sum::<Duration>() / u32::try_from(waits.len()).expect("fewer than 2^32");
    let longest = waits.iter().max().copied().unwrap_or_default();
    println!("{PROCESSES} processes, {} s, acquisitions of each: {counts:?}", SPAN.as_secs());
    println!("acquisitions a second        {:>8.0}", total as f64 / SPAN.as_secs_f64());
    println!("Jain index                   {jain:>8.4}   (floor .95)");
    println!("mean wait {:>9.1} µs   longest {:>9.1} µs", micros(mean), micros(longest));
    println!("longest / mean               {:>8.2}   (floor 10)", micros(longest) / micros(mean));
}

pub(crate) fn peer(args: &[String]) {
    let client = blocking::open(&args[0]).expect("opens");
    let lock = client.lock("x").expect("a name");
    // All are up by then; what each waits before and after the others run says nothing about fairness.
    std::thread::sleep(Duration::from_secs(1));
    let began = Instant::now();
    let mut waits = Vec::new();
    while began.elapsed() < SPAN {
        let asked = Instant::now();
        let lease = lock.acquire().expect("in time");
        waits.push(asked.elapsed());
        lease.release().expect("reachable");
    }
    client.close();
    let lines: Vec<String> = waits.iter().map(|wait| wait.as_nanos().to_string()).collect();
    std::io::stdout().write_all((lines.join("\n") + "\n").as_bytes()).expect("the parent reads");
}
