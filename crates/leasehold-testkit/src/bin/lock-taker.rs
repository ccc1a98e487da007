//! A process that takes locks, for tests that kill, stop and continue it.

fn main() {
    leasehold_testkit::taker::main();
}
