//! Real processes on every store that has them. Here, because the program that they run is of this package.

use leasehold_testkit::Fixture;

leasehold_testkit::process_conformance! {
    sqlite => Fixture::sqlite(),
}
