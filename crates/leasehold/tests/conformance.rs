//! Every promise, on every store of this build.

use leasehold_testkit::Fixture;

leasehold_testkit::conformance! {
    memory => Fixture::memory(),
    #[cfg(feature = "sqlite")]
    sqlite => Fixture::sqlite(),
}
