//! Every promise, as a test that can fail.
//!
//! [`conformance!`](crate::conformance!) makes one test of each promise for each store, so that the list below is what
//! a store's test output reads like. A promise is a function of a [`Fixture`]: it opens as many clients as it needs, and
//! goes by the boot clock that all of them share.

mod basics;
mod breaking;
mod delegating;
mod ending;
mod exclusion;
mod fences;
mod given;
mod keeping;
mod kit;
mod limits;
mod names;
mod offers;
mod orchestrating;
mod order;
mod permits;
mod seeing;
mod steps;
mod strangers;
mod waiting;
mod waking;

use std::{future::Future, time::Duration};

use crate::Fixture;

/// No promise takes as long as this: one that does hangs.
const LIMIT: Duration = Duration::from_secs(90);

/// Runs one promise on a runtime of its own.
pub fn run<F: Future<Output = ()>>(fixture: &Fixture, promise: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let done = runtime.block_on(async { tokio::time::timeout(LIMIT, promise()).await });
    assert!(done.is_ok(), "{fixture:?}: not done after {LIMIT:?}");
}

macro_rules! promises {
    ($d:tt $($group:ident { $($name:ident)* })*) => {
        /// One test for each promise and store, and one that fails if a store of this build is missing.
        ///
        /// ```
        /// leasehold_testkit::conformance! {
        ///     memory => leasehold_testkit::Fixture::memory(),
        ///     sqlite => leasehold_testkit::Fixture::sqlite(),
        /// }
        /// ```
        #[macro_export]
        macro_rules! conformance {
            ($d($d(#[$meta:meta])* $scheme:ident => $fixture:expr),+ $d(,)?) => {
                $d($d(#[$meta])* mod $scheme {
                    #[allow(unused_imports, reason = "the fixture may be named by its path")]
                    use super::*;
                    $($(
                        #[test]
                        fn $name() {
                            $crate::conformance::promise::$name(&$fixture);
                        }
                    )*)*
                })+

                #[test]
                fn every_store_of_this_build_is_in_the_suite() {
                    let tested = [$d($d(#[$meta])* stringify!($scheme)),+];
                    $crate::given::assert_all_are_tested(&tested, |_| true);
                }
            };
        }

        /// What [`conformance!`](crate::conformance!) calls.
        #[allow(missing_docs, reason = "the names are the promises")]
        pub mod promise {
            $($(
                pub fn $name(fixture: &crate::Fixture) {
                    super::run(fixture, || super::$group::$name(fixture));
                }
            )*)*
        }
    };
}

promises! { $
    given {
        it_promises_no_less_than_it_is_given
        what_it_is_not_given_it_refuses
    }
    basics {
        a_free_name_is_acquired_and_free_again_after_its_release
        a_held_name_is_refused_at_once_to_one_that_does_not_wait
        a_wait_ends_when_its_time_is_up_and_not_before
        a_refusal_names_the_holder_its_reason_since_when_and_the_time_left
        names_do_not_exclude_each_other
        of_many_that_try_at_once_one_gets_it
        a_retry_policy_asks_as_often_as_it_says_and_does_not_queue
        what_makes_no_sense_is_refused
    }
    fences {
        fences_grow_over_acquisitions_of_several_clients
        fences_grow_when_a_lease_expires
        fences_grow_over_a_hand_over
        a_break_uses_up_a_fence
        fences_grow_over_reopening_the_store
    }
    order {
        waiters_of_several_clients_are_served_first_come_first_served
        a_newcomer_does_not_overtake_those_who_wait
        a_waiter_keeps_its_place_by_its_heartbeat
        a_silent_waiter_is_passed_over_at_once
        a_waiter_that_nobody_can_wake_costs_one_claim_window
        a_silent_waiter_that_is_heard_again_stands_where_it_stood
        a_waiter_that_stays_silent_is_dropped_when_its_waiter_ttl_ends
    }
    waiting {
        a_waiter_that_gives_up_leaves_the_queue_at_once
        a_dropped_acquire_leaves_the_queue_at_once
        a_grant_that_raced_with_giving_up_is_passed_on
        cancels_that_race_with_grants_leak_nothing
        whoever_waits_is_told_for_whom_and_in_which_place
    }
    waking {
        a_release_wakes_a_waiter_of_another_client
        an_expiry_wakes_a_waiter_without_a_release
        a_waiter_that_leaves_the_head_wakes_the_next
    }
    offers {
        a_confirmed_lease_has_its_whole_ttl_though_it_was_waited_for
        one_that_is_not_kept_alive_lasts_its_ttl_though_it_was_waited_for
        one_that_never_expires_does_not_though_it_was_waited_for
    }
    exclusion {
        no_two_hold_at_once
        a_lease_that_is_not_renewed_lets_another_in_after_its_deadline_and_within_its_ttl
        the_holder_is_told_before_its_successor_has_it
    }
    steps {
        a_claim_that_arrives_twice_gets_the_same_fence
        a_queued_claim_that_arrives_twice_has_one_place
        a_late_claim_of_one_that_left_is_refused
        a_late_claim_of_one_that_released_is_refused
        a_second_release_says_so
        a_second_leave_finds_nothing
        a_renewal_never_creates_anything
        a_renewal_after_the_end_is_refused
        renewals_that_go_together_are_answered_each_on_its_own
        a_hand_over_that_arrives_twice_is_one
        a_second_break_does_no_more
        a_check_changes_nothing
    }
    strangers {
        a_stranger_changes_nothing
        the_right_id_with_the_wrong_fence_changes_nothing
        one_that_was_overtaken_changes_nothing
        a_late_release_does_not_touch_the_successor
    }
    keeping {
        the_keeper_renews_over_several_ttls
        the_keeper_renews_while_the_executor_is_blocked
        one_client_keeps_many_leases
        a_program_that_makes_no_progress_loses
        a_program_that_makes_progress_keeps
    }
    limits {
        without_keep_alive_it_ends_after_its_ttl
        max_hold_ends_it_however_often_it_is_renewed
        min_hold_keeps_the_name_taken_after_the_release
        min_validity_is_there_when_it_is_acquired
        a_lease_that_never_expires_stays
    }
    delegating {
        a_bearer_keeps_a_shared_lease_alive_with_the_same_fence
        a_bearer_that_stops_does_not_release
        a_ticket_gives_no_more_than_its_rights
        a_ticket_with_the_right_releases_once_and_says_so_again
        a_bearer_is_told_when_the_owner_releases
        a_ticket_of_another_store_is_refused
        not_after_is_enforced_by_the_store
        a_bearer_relies_on_no_more_than_its_ticket_gives
        a_sharer_does_not_pass_on_what_it_does_not_have
        a_ticket_survives_its_text_and_hides_its_secret
        a_hand_over_fences_the_giver_out
        an_adopted_lease_is_released_when_dropped
        a_detached_lease_is_neither_kept_nor_released
    }
    orchestrating {
        the_same_work_attaches_and_its_predecessor_is_told
        a_predecessor_that_was_overtaken_cannot_end_the_lease
        other_work_waits
        a_restarted_orchestrator_does_not_disturb_its_remote
        who_attaches_goes_by_the_ttl_of_the_lease
    }
    breaking {
        a_broken_lease_is_not_renewed_and_free_when_its_time_is_up
        a_lease_broken_now_is_free_at_once
        a_newer_holder_is_untouched_by_a_break
        a_lease_that_never_expires_is_freed_by_a_break
    }
    seeing {
        a_name_is_seen_with_its_holder_and_its_queue
        a_list_has_what_is_held_or_waited_for_by_prefix
        nothing_that_is_seen_shows_a_secret
    }
    names {
        a_name_may_have_any_character_but_control_characters
        names_that_look_alike_are_different
        what_is_no_name_is_refused
    }
    ending {
        a_dropped_lease_is_released_and_close_waits_for_it
        close_waits_for_abandoned_places
        a_release_says_whether_it_was_still_held
        a_release_that_is_dropped_halfway_is_made_all_the_same
        run_releases_and_gives_back_the_value
        run_releases_when_the_work_fails
        run_releases_when_the_work_panics
        run_drops_the_work_when_the_lease_is_lost
        guard_ends_with_the_work_or_with_the_lease
    }
    permits {
        permits_are_counted
        a_large_claim_is_not_overtaken_by_small_ones
        another_capacity_is_refused
    }
}
