//! The promises that only real processes can show: they are killed with -9, stopped and continued.
//!
//! "Told in time" is asserted by the successor's timestamp, on the boot clock that all processes of a machine share.

mod crowds;
mod deaths;
mod pauses;

use std::{path::Path, time::Duration};

use leasehold::clock::{Clock as _, SystemClock};

use crate::{
    Fixture,
    taker::{Job, Taker},
};

/// A store, and the program that takes locks on it.
#[derive(Debug)]
pub struct Scene<'a> {
    fixture: Fixture,
    program: &'a Path,
}

impl<'a> Scene<'a> {
    /// On a fresh store.
    pub fn new(fixture: Fixture, program: &'a Path) -> Self {
        assert!(fixture.given().processes, "{fixture:?} is for one process only");
        Self { fixture, program }
    }

    fn job(&self, party: &str) -> Job {
        Job::new(self.fixture.url_for_others(), NAME, party)
    }

    fn start(&self, job: &Job) -> Taker {
        Taker::start(self.program, job)
    }

    /// Starts one that is about to hold the name.
    fn holder(&self, party: &str, ttl_ms: u64) -> Taker {
        self.start(&self.job(party).ttl_ms(ttl_ms))
    }

    /// Starts one and waits until it stands in the queue.
    fn waiter(&self, party: &str, ttl_ms: u64) -> Taker {
        let mut taker = self.holder(party, ttl_ms);
        taker.queued();
        taker
    }
}

/// The name that everyone wants.
const NAME: &str = "the one";

/// What a noisy machine may add to anything.
const EPSILON: Duration = Duration::from_secs(2);

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("less than centuries")
}

fn now() -> u64 {
    SystemClock.now().nanos()
}

macro_rules! process_promises {
    ($d:tt $($group:ident { $($name:ident)* })*) => {
        /// One test for each promise and store; `lock-taker` must be a program of the package whose test this is.
        ///
        /// ```
        /// leasehold_testkit::process_conformance! { sqlite => leasehold_testkit::Fixture::sqlite() }
        /// ```
        #[macro_export]
        macro_rules! process_conformance {
            ($d($d(#[$meta:meta])* $scheme:ident => $fixture:expr),+ $d(,)?) => {
                $d($d(#[$meta])* mod $scheme {
                    #[allow(unused_imports, reason = "the fixture may be named by its path")]
                    use super::*;
                    $($(
                        #[test]
                        fn $name() {
                            let program = ::std::path::Path::new(env!("CARGO_BIN_EXE_lock-taker"));
                            $crate::processes::promise::$name(&$crate::processes::Scene::new($fixture, program));
                        }
                    )*)*
                })+

                #[test]
                fn every_store_for_many_processes_is_in_the_suite() {
                    let tested = [$d($d(#[$meta])* stringify!($scheme)),+];
                    $crate::given::assert_all_are_tested(&tested, |given| given.processes);
                }
            };
        }

        /// What [`process_conformance!`](crate::process_conformance!) calls.
        #[allow(missing_docs, reason = "the names are the promises")]
        pub mod promise {
            $($(
                pub fn $name(scene: &super::Scene<'_>) {
                    super::$group::$name(scene);
                }
            )*)*
        }
    };
}

process_promises! { $
    deaths {
        a_holder_killed_with_9_is_followed_within_its_ttl_by_a_larger_fence
        a_waiter_killed_at_the_head_is_skipped_at_once
        all_of_a_killed_process_is_skipped_at_once
        a_killed_waiter_leaves_the_queue_when_its_waiter_ttl_ends
    }
    pauses {
        a_holder_stopped_past_its_ttl_is_told_before_it_does_anything_else
        a_holder_stopped_for_less_than_its_ttl_keeps_the_name
        a_stopped_waiter_costs_at_most_one_claim_window
        a_stopped_waiter_that_goes_on_stands_where_it_stood
        a_fenced_resource_refuses_the_stale_holder_and_an_unfenced_one_does_not
    }
    crowds {
        no_increment_is_lost_under_the_lock_and_some_are_without_it
        eight_processes_get_equal_shares
        a_release_wakes_a_waiter_in_another_process
    }
}
