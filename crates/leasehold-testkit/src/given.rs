//! What each store is given to promise. The store itself has no say in it: one that promises less than stands here
//! fails the suite, and what is not given must be refused with a typed error.

use leasehold::Promises;

/// One row for each scheme that a build of Leasehold can have.
const TABLE: &[(&str, Promises)] = &[
    ("sqlite", Promises::ALL),
    ("memory", {
        let mut promises = Promises::ALL;
        promises.processes = false;
        promises
    }),
];

/// What the stores of a scheme have to promise; `None` if the scheme is not known here.
pub fn promises(scheme: &str) -> Option<Promises> {
    TABLE.iter().find(|(known, _)| *known == scheme).map(|(_, promises)| *promises)
}

/// Fails unless `tested` are all the stores of this build that `are_meant`.
pub fn assert_all_are_tested(tested: &[&str], are_meant: impl Fn(Promises) -> bool) {
    for (scheme, _) in leasehold::SCHEMES {
        let given = promises(scheme)
            .unwrap_or_else(|| panic!("{scheme}: is in this build, and not in the table of what stores promise"));
        assert!(
            tested.contains(scheme) || !are_meant(given),
            "{scheme}: is in this build, and not in the suite: add it to the macro"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "not in the suite")]
    fn a_store_of_this_build_that_is_not_tested_fails() {
        assert_all_are_tested(&["sqlite"], |_| true);
    }

    #[test]
    fn a_store_that_is_not_meant_need_not_be_tested() {
        assert_all_are_tested(&["sqlite"], |given| given.processes);
    }
}
