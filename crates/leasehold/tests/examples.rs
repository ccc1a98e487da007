//! The examples run, and what they assert holds.

#[path = "../examples/long_standing_owner.rs"]
mod long_standing_owner;
#[path = "../examples/once_per_period.rs"]
mod once_per_period;

#[test]
fn a_long_standing_owner_is_replaced_when_it_hangs_and_when_it_leaves() {
    long_standing_owner::main().unwrap();
}

#[test]
fn once_per_period_whoever_tries() {
    once_per_period::main().unwrap();
}
