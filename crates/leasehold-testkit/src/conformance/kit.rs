//! What the promises have in common.

use std::{future::Future, sync::Arc, time::Duration};

use leasehold::{
    AttemptId, Client, ClientId, Contended, Error, ErrorKind, LeaseView, Lock, Name,
    engine::{
        Check, Claim, ClaimReply, Grant, HandOver, HoldReply, Leave, Queued, Queueing, Release, Renew, Request, Span,
        Who,
    },
    store::Store,
};

use crate::Fixture;

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A ttl that is waited out. Long enough that a renewal a third of it late does no harm on a busy machine.
pub(super) const SHORT: Duration = Duration::from_secs(1);
/// A ttl that does not end within a test.
pub(super) const LONG: Duration = Duration::from_mins(1);
/// What a busy machine may add to anything.
pub(super) const EPSILON: Duration = Duration::from_secs(2);
/// Less than a heartbeat of a waiter (3.3 s): what comes sooner was woken.
pub(super) const PROMPT: Duration = Duration::from_millis(2500);

/// A client, and a lock on `name` whose lease outlasts the test.
pub(super) async fn lock(fixture: &Fixture, name: &str) -> (Client, Lock) {
    let client = fixture.client().await;
    let lock = client.lock(name).unwrap().ttl(LONG);
    (client, lock)
}

/// Waits until `done`, which must not take long.
pub(super) async fn until<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    for _ in 0..2000 {
        if done().await {
            return;
        }
        tokio::time::sleep(ms(5)).await;
    }
    panic!("still not so after 10 s: {what}");
}

pub(super) async fn seen(client: &Client, name: &Name) -> LeaseView {
    client.inspect(name).await.unwrap()
}

/// How many wait.
pub(super) async fn waiters(client: &Client, name: &Name) -> usize {
    seen(client, name).await.queue.expect("the store knows its queue").len()
}

/// Waits until so many stand in the queue.
pub(super) async fn queued(client: &Client, name: &Name, count: usize) {
    until(&format!("{count} wait"), async || waiters(client, name).await == count).await;
}

/// Nobody holds it, and nobody waits.
pub(super) async fn assert_free(client: &Client, name: &Name) {
    let view = seen(client, name).await;
    assert!(view.holders.is_empty() && view.queue.iter().all(Vec::is_empty), "not free: {view:?}");
}

/// Waits until nobody holds it and nobody waits.
pub(super) async fn freed(client: &Client, name: &Name) {
    until("it is free", async || {
        let view = seen(client, name).await;
        view.holders.is_empty() && view.queue.iter().all(Vec::is_empty)
    })
    .await;
}

#[track_caller]
pub(super) fn contended<T: std::fmt::Debug>(result: Result<T, Error>) -> Contended {
    match result {
        Err(Error::Contended(contended)) => *contended,
        other => panic!("not contended: {other:?}"),
    }
}

#[track_caller]
pub(super) fn assert_kind<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) {
    match result {
        Err(error) if error.kind() == kind => assert!(!error.hint().is_empty(), "no hint: {error}"),
        other => panic!("not {kind:?}: {other:?}"),
    }
}

/// One name of a store, by single steps.
pub(super) struct Steps {
    pub(super) client: Client,
    pub(super) name: Name,
    store: Arc<dyn Store>,
}

impl Steps {
    pub(super) async fn of(fixture: &Fixture, name: &str) -> Self {
        Self::by(&fixture.client().await, name)
    }

    pub(super) fn by(client: &Client, name: &str) -> Self {
        Self { client: client.clone(), name: name.parse().unwrap(), store: client.store().clone() }
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(super) async fn ask<R: Request>(&self, request: R) -> R::Reply {
        let reply = self.store.apply(&self.name, request.into()).await;
        reply.and_then(R::reply).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) async fn granted(&self, claim: Claim) -> Grant {
        match self.ask(claim).await {
            ClaimReply::Granted(grant) => grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    pub(super) async fn placed(&self, claim: Claim) -> Queued {
        match self.ask(claim).await {
            ClaimReply::Queued(queued) => queued,
            other => panic!("not queued: {other:?}"),
        }
    }

    pub(super) async fn assert_held(&self, id: AttemptId, fence: u64) {
        let reply = self.ask(Check { id, fence }).await;
        assert!(matches!(reply, HoldReply::Held { .. }), "{reply:?}");
    }
}

pub(super) fn id(number: u32) -> AttemptId {
    AttemptId::from_bits(0x5eed_0000_0000_0000_0000_0000 + u128::from(number))
}

/// Puts waiters in the queue whose client is gone then, without having left: nobody receives what is sent to it.
pub(super) async fn dead_waiters(fixture: &Fixture, name: &str, numbers: impl IntoIterator<Item = u32>) {
    let steps = Steps::of(fixture, name).await;
    for number in numbers {
        steps.placed(patient(number, steps.store().client())).await;
    }
}

pub(super) fn who(owner: &str) -> Arc<Who> {
    Arc::new(Who { owner: owner.into(), reason: None })
}

/// A claim that does not queue, for a lease that outlasts the test.
pub(super) fn claim(number: u32) -> Claim {
    Claim {
        id: id(number),
        permits: 1,
        capacity: 1,
        ttl: LONG.into(),
        told: None,
        max_hold: None,
        client: None,
        queue: None,
        work: None,
        who: who(&format!("owner {number}")),
    }
}

pub(super) const WINDOW: Duration = Duration::from_secs(1);

/// A claim that queues.
pub(super) fn patient(number: u32, client: Option<ClientId>) -> Claim {
    let queue = Some(Queueing { waiter_ttl: Duration::from_secs(10).into(), window: WINDOW.into() });
    Claim { client, queue, ..claim(number) }
}

pub(super) fn renew(number: u32, fence: u64) -> Renew {
    Renew { id: id(number), fence, tenure: Some(0), not_after_ms: None }
}

pub(super) fn release(number: u32) -> Release {
    Release { id: id(number), tenure: Some(0), linger: None, remember: Some(Span::from(LONG)) }
}

pub(super) fn leave(number: u32) -> Leave {
    Leave { id: id(number), remember: Some(Span::from(LONG)) }
}

pub(super) fn hand_over(from: u32, fence: u64, to: u32) -> HandOver {
    HandOver { id: id(from), fence, tenure: Some(0), to: id(to) }
}
