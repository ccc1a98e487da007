//! Takers that are killed, stopped and continued at random.

use std::path::Path;

use leasehold_testkit::{Fixture, torture::Torture};

#[test]
fn nobody_overlaps_or_overtakes_and_fences_grow_whatever_is_killed_and_stopped() {
    let holds = Torture::with_a_seed().run(&Fixture::sqlite(), Path::new(env!("CARGO_BIN_EXE_lock-taker")));
    assert!(holds.len() > 30, "{} holds prove little", holds.len());
}
