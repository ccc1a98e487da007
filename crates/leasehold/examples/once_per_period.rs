//! Once per period, however many try: a distributed rate limiter.
//!
//! ```sh
//! cargo run --example once_per_period
//! ```
//!
//! Every machine of a fleet runs the same schedule, and each time one of them does the work. `min_hold` keeps the name
//! taken until the period is over, also when the work is done earlier.

use std::{error::Error, time::Duration};

use leasehold::{Client, Error as LeaseError};

const PERIOD: Duration = Duration::from_secs(1);
const MACHINES: usize = 4;
const ROUNDS: u32 = 3;

/// Does the work if it has not been done in this period.
async fn report(client: &Client) -> Result<bool, LeaseError> {
    let lock = client.lock("hourly report")?.min_hold(PERIOD);
    match lock.try_acquire().await {
        Ok(lease) => {
            // … the work, which takes less than the period …
            lease.release().await?;
            Ok(true)
        }
        Err(LeaseError::Contended(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let mut fleet = Vec::new();
    for _ in 0..MACHINES {
        fleet.push(leasehold::open("memory:once_per_period").await?);
    }
    let clock = fleet[0].clone();
    let end = clock.now() + PERIOD * ROUNDS;
    let mut done = Vec::new();
    // The machines try far more often than the period, and not at the same time.
    for machine in (0..MACHINES).cycle() {
        let asked = clock.now();
        if asked >= end {
            break;
        }
        if report(&fleet[machine]).await? {
            println!("machine {machine} did it");
            done.push((asked, clock.now()));
        }
        tokio::time::sleep(PERIOD / 50).await;
    }
    // From when one had it until the next asked, a whole period passed.
    assert!(done.windows(2).all(|pair| pair[1].1.since(pair[0].0) >= PERIOD), "{done:?}");
    assert!((2..=ROUNDS as usize).contains(&done.len()), "{done:?}");
    println!("{} times in {ROUNDS} periods, by a fleet of {MACHINES}", done.len());
    Ok(())
}
