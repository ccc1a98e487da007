//! Acquire and release in one process, against a bare SQLite transaction pair of the same durability.

use std::time::Duration;

use crate::measure::{Bare, heading, micros, pin, show, time};

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

    let (mut limit, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for n in 0..PAIRS {
            limit.push(time(|| {
                bare.commit(&[u8::try_from(n % 251).expect("small"); 100]);
                bare.commit(&[0; 20]);
            }));
        }
        for _ in 0..PAIRS {
            ours.push(time(|| {
                let lease = lock.acquire().expect("free");
                assert!(lease.release().expect("reachable"));
            }));
        }
    }
    // The mean has the syncs of SQLite's checkpoints in it, the median has none.
    let (limit_mean, ours_mean) = (mean(&limit), mean(&ours));
    let limit = show("limit: bare SQLite transaction pair", &mut limit);
    let ours = show("acquire + release", &mut ours);
    println!(
        "mean, checkpoints included: limit {limit_mean:.1} µs, ours {ours_mean:.1} µs, ratio {:.2}",
        limit_mean / ours_mean
    );
    println!("ratio to the limit (p50)     {:>8.2}   (floor .40, goal .70)", limit / ours);
}

fn mean(samples: &[Duration]) -> f64 {
    micros(samples.iter().sum::<Duration>()) / f64::from(u32::try_from(samples.len()).expect("fewer than 2^32"))
}
