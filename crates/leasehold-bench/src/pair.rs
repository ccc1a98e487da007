//! Acquire and release in one process, against a bare SQLite transaction pair of the same durability.

use std::time::Duration;

use crate::measure::{Bare, heading, micros, pin, quantile, time};

pub(crate) fn run() {
    const ROUNDS: usize = 60;
    const PAIRS: u32 = 1000;
    heading();
    pin();
    let dir = tempfile::tempdir().expect("a directory");
    let bare = Bare::open(&dir.path().join("bare.db"));
    let client = leasehold::blocking::open(&format!("sqlite:{}", dir.path().join("leases.db").display()))
        .expect("the embedded store opens");
    let lock = client.lock("x").expect("a name");

    let mut limit = Vec::new();
    let mut ours = Vec::new();
    for _ in 0..ROUNDS {
        limit.push(
            time(|| {
                for n in 0..PAIRS {
                    bare.commit(&[u8::try_from(n % 251).expect("small"); 100]);
                    bare.commit(&[0; 20]);
                }
            }) / PAIRS,
        );
        ours.push(
            time(|| {
                for _ in 0..PAIRS {
                    let lease = lock.acquire().expect("free");
                    assert!(lease.release().expect("reachable"));
                }
            }) / PAIRS,
        );
    }
    let report = |what: &str, samples: &mut Vec<Duration>| {
        println!("{what:<28} {:>8.2} µs a pair (median of {ROUNDS} rounds of {PAIRS})", micros(quantile(samples, 0.5)));
        micros(quantile(samples, 0.5))
    };
    let limit = report("bare SQLite transactions", &mut limit);
    let ours = report("acquire + release", &mut ours);
    println!("ratio to the limit           {:>8.2}   (floor .40, goal .70)", limit / ours);
}
