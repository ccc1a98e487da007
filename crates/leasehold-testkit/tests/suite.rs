//! The suite itself: a store that breaks a promise fails that promise's test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use leasehold::{
    ClientId, Error, LeaseView, Name, Promises,
    engine::{ClaimReply, Command, HoldReply, Renew, Reply},
    store::{Answer, Hint, Store},
};
use leasehold_testkit::{Fixture, conformance::promise, given};

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Declares itself out of the fence.
    Modest,
    /// Says that other processes see its leases.
    Boastful,
    /// Gives the same fence again and again.
    SameFence,
    /// Forgets who left.
    NoTombstones,
    /// Never wakes anyone.
    Mute,
    /// Says held to whoever renews.
    RenewsAnyone,
    /// Says that nobody waits.
    HidesItsQueue,
    /// Lists by what a name contains.
    ListsTooMuch,
    /// Shortens names.
    CutsNames,
}

#[derive(Debug)]
struct Faulty {
    inner: Arc<dyn Store>,
    fault: Fault,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }
}

impl Store for Faulty {
    fn promises(&self) -> Promises {
        let mut promises = self.inner.promises();
        promises.fence &= !self.has(Fault::Modest);
        promises.processes |= self.has(Fault::Boastful);
        promises
    }

    fn fingerprint(&self) -> &str {
        self.inner.fingerprint()
    }

    fn client(&self) -> Option<ClientId> {
        self.inner.client()
    }

    fn apply<'a>(&'a self, name: &'a Name, mut command: Command) -> Answer<'a, Reply> {
        Box::pin(async move {
            if self.has(Fault::NoTombstones) {
                match &mut command {
                    Command::Leave(leave) => leave.remember = None,
                    Command::Release(release) => release.remember = None,
                    _ => {}
                }
            }
            let cut: Name = name.as_str().chars().take(3).collect::<String>().try_into()?;
            let name = if self.has(Fault::CutsNames) { &cut } else { name };
            let mut reply = self.inner.apply(name, command).await?;
            match &mut reply {
                Reply::Claim(ClaimReply::Granted(grant)) if self.has(Fault::SameFence) => grant.fence = 7,
                Reply::Hold(held) if self.has(Fault::RenewsAnyone) => *held = HoldReply::Held { left: None },
                _ => {}
            }
            Ok(reply)
        })
    }

    fn renew_all(&self, renewals: Vec<(Name, Renew)>) -> Answer<'_, Vec<Result<HoldReply, Error>>> {
        self.inner.renew_all(renewals)
    }

    fn inspect<'a>(&'a self, name: &'a Name) -> Answer<'a, LeaseView> {
        Box::pin(async move {
            let mut view = self.inner.inspect(name).await?;
            if self.has(Fault::HidesItsQueue) {
                view.queue = Some(Vec::new());
            }
            Ok(view)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<LeaseView>> {
        Box::pin(async move {
            let mut views = self.inner.list("").await?;
            let too_much = self.has(Fault::ListsTooMuch);
            views.retain(|view| {
                view.name.as_str().starts_with(prefix) || too_much && view.name.as_str().contains(prefix)
            });
            Ok(views)
        })
    }

    fn next_hint(&self) -> Answer<'_, Hint> {
        if self.has(Fault::Mute) { Box::pin(std::future::pending()) } else { self.inner.next_hint() }
    }
}

/// A store in memory with that fault; what it is given to promise is what the memory store is.
fn fixture(fault: Fault) -> Fixture {
    let world = Arc::new(Fixture::memory());
    Fixture::opened_by("faulty", given::promises("memory").unwrap(), move || {
        let world = world.clone();
        async move {
            let inner = world.client().await.store().clone();
            Arc::new(Faulty { inner, fault }) as Arc<dyn Store>
        }
    })
}

#[track_caller]
fn assert_caught(fault: Fault, promise: fn(&Fixture)) {
    promise(&fixture(Fault::None));
    let caught = catch_unwind(AssertUnwindSafe(|| promise(&fixture(fault))));
    assert!(caught.is_err(), "a store that is {fault:?} passes");
}

#[test]
fn a_store_that_declares_itself_out_of_a_promise_fails() {
    assert_caught(Fault::Modest, promise::it_promises_no_less_than_it_is_given);
    assert_caught(Fault::Modest, promise::what_it_is_not_given_it_refuses);
}

#[test]
fn a_store_that_promises_what_it_is_not_given_fails() {
    assert_caught(Fault::Boastful, promise::it_promises_no_less_than_it_is_given);
}

#[test]
fn a_store_whose_fences_do_not_grow_fails() {
    assert_caught(Fault::SameFence, promise::fences_grow_over_acquisitions_of_several_clients);
}

#[test]
fn a_store_that_forgets_who_left_fails() {
    assert_caught(Fault::NoTombstones, promise::a_late_claim_of_one_that_left_is_refused);
    assert_caught(Fault::NoTombstones, promise::a_late_claim_of_one_that_released_is_refused);
    assert_caught(Fault::NoTombstones, promise::a_second_release_says_so);
}

#[test]
fn a_store_that_wakes_nobody_fails() {
    assert_caught(Fault::Mute, promise::a_release_wakes_a_waiter_of_another_client);
}

#[test]
fn a_store_that_lets_anyone_renew_fails() {
    assert_caught(Fault::RenewsAnyone, promise::a_stranger_changes_nothing);
    assert_caught(Fault::RenewsAnyone, promise::a_renewal_never_creates_anything);
}

#[test]
fn a_store_that_hides_its_queue_fails() {
    assert_caught(Fault::HidesItsQueue, promise::a_queued_claim_that_arrives_twice_has_one_place);
}

#[test]
fn a_store_that_takes_names_for_what_they_are_not_fails() {
    assert_caught(Fault::ListsTooMuch, promise::a_list_has_what_is_held_or_waited_for_by_prefix);
    assert_caught(Fault::CutsNames, promise::a_name_may_have_any_character_but_control_characters);
}
