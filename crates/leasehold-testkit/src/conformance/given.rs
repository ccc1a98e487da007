//! What the store says of itself.

use leasehold::{ErrorKind, Ttl};

use super::kit::{assert_kind, lock};
use crate::Fixture;

pub(super) async fn it_promises_no_less_than_it_is_given(fixture: &Fixture) {
    let says = fixture.client().await.promises();
    let given = fixture.given();
    let each = [
        ("fence", given.fence, says.fence),
        ("fifo", given.fifo, says.fifo),
        ("push", given.push, says.push),
        ("never", given.never, says.never),
        ("processes", given.processes, says.processes),
    ];
    for (promise, given, says) in each {
        assert!(says || !given, "{fixture:?} declares itself out of {promise}, which it is given");
        assert!(given || !says, "{fixture:?} promises {promise}, which it is not given");
    }
}

pub(super) async fn what_it_is_not_given_it_refuses(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let given = fixture.given();
    if !given.never {
        assert_kind(lock.clone().ttl(Ttl::Never).try_acquire().await, ErrorKind::Unsupported);
    }
    let lease = lock.try_acquire().await.unwrap();
    assert_eq!(lease.fence().is_some(), given.fence, "a fence is there if and only if it is given");
    assert_eq!(client.store().client().is_some(), given.push, "it can be woken if and only if that is given");
    lease.release().await.unwrap();
}
