//! Tickets: share, hand over, adopt, detach.

use std::time::SystemTime;

use leasehold::{Error, ErrorKind, Loss, Rights, Ticket, Validity};

use super::kit::{EPSILON, LONG, SHORT, assert_free, assert_kind, contended, freed, lock, ms, seen, until};
use crate::Fixture;

#[track_caller]
fn lost<T: std::fmt::Debug>(result: Result<T, Error>) -> Loss {
    match result {
        Err(Error::Lost { loss, .. }) => loss,
        other => panic!("not lost: {other:?}"),
    }
}

pub(super) async fn a_bearer_keeps_a_shared_lease_alive_with_the_same_fence(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let remote = fixture.client().await;
    let owner = lock.ttl(SHORT).keep_alive(false).acquire().await.unwrap();
    let ticket: Ticket = owner.share(Rights::RENEW).encode().parse().unwrap();
    let bearer = remote.accept(&ticket).await.unwrap();
    assert_eq!((bearer.fence(), bearer.name()), (owner.fence(), owner.name()));
    tokio::time::sleep(2 * SHORT).await;
    assert_eq!(bearer.loss(), None, "it renews, though the owner does not");
    assert_eq!(seen(&client, owner.name()).await.holders[0].fence, owner.fence());
    for client in [&client, &remote] {
        assert!(
            matches!(client.check(&ticket).await.unwrap(), Validity::For(left) if left <= SHORT && !left.is_zero())
        );
        assert!(
            matches!(client.renew(&ticket).await.unwrap(), Validity::For(left) if left <= SHORT && !left.is_zero())
        );
    }
}

pub(super) async fn a_bearer_that_stops_does_not_release(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let owner = lock.acquire().await.unwrap();
    for rights in [Rights::RENEW, Rights::ALL] {
        let remote = fixture.client().await;
        drop(remote.accept(&owner.share(rights)).await.unwrap());
        remote.close().await;
        client.check(&owner.share(Rights::CHECK)).await.unwrap();
    }
    assert!(owner.is_valid() && owner.release().await.unwrap());
}

pub(super) async fn a_ticket_gives_no_more_than_its_rights(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let owner = lock.acquire().await.unwrap();
    let check = owner.share(Rights::CHECK);
    client.check(&check).await.unwrap();
    assert_kind(client.renew(&check).await, ErrorKind::Invalid);
    assert_kind(client.accept(&check).await, ErrorKind::Invalid);

    let renew = owner.share(Rights::RENEW);
    let bearer = client.accept(&renew).await.unwrap();
    assert_eq!(bearer.share(Rights::ALL).rights(), Rights::RENEW, "a bearer passes on what it has");
    assert_kind(bearer.release().await, ErrorKind::Invalid);
    for ticket in
        [check.clone(), renew, owner.share(Rights::ALL).restricted(Rights::RENEW), check.restricted(Rights::ALL)]
    {
        assert_kind(client.release(&ticket).await, ErrorKind::Invalid);
        assert_kind(client.adopt(&ticket).await, ErrorKind::Invalid);
    }
    client.check(&owner.share(Rights::CHECK)).await.unwrap();
    assert!(owner.release().await.unwrap(), "after all that it is still held");
}

pub(super) async fn a_ticket_with_the_right_releases_once_and_says_so_again(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let remote = fixture.client().await;
    let owner = lock.ttl(SHORT).acquire().await.unwrap();
    let ticket = owner.share(Rights::ALL);
    assert!(remote.release(&ticket).await.unwrap());
    assert_free(&client, owner.name()).await;
    assert!(remote.release(&ticket).await.unwrap(), "as it was by this ticket");
    assert_eq!(owner.lost().await, Loss::Released, "the owner is told");
    assert_eq!(lost(client.check(&ticket).await), Loss::Released);
    assert_eq!(lost(client.renew(&ticket).await), Loss::Released);
    assert_eq!(lost(client.accept(&ticket).await), Loss::Released);
    assert!(!owner.release().await.unwrap());
}

pub(super) async fn a_bearer_is_told_when_the_owner_releases(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let owner = lock.ttl(2 * SHORT).acquire().await.unwrap();
    let bearer = fixture.client().await.accept(&owner.share(Rights::RENEW)).await.unwrap();
    owner.release().await.unwrap();
    let released = client.now();
    assert_eq!(bearer.lost().await, Loss::Released);
    assert!(client.now().since(released) < 2 * SHORT, "at its next renewal at the latest");
}

pub(super) async fn a_ticket_of_another_store_is_refused(fixture: &Fixture) {
    let client = fixture.client().await;
    let elsewhere = leasehold::open("memory:elsewhere").await.unwrap();
    let foreign = elsewhere.lock("x").unwrap().acquire().await.unwrap();
    let own = client.lock("x").unwrap().acquire().await.unwrap();
    for (client, ticket) in [(&client, foreign.share(Rights::ALL)), (&elsewhere, own.share(Rights::ALL))] {
        assert_kind(client.check(&ticket).await, ErrorKind::Invalid);
        assert_kind(client.renew(&ticket).await, ErrorKind::Invalid);
        assert_kind(client.release(&ticket).await, ErrorKind::Invalid);
        assert_kind(client.accept(&ticket).await, ErrorKind::Invalid);
        assert_kind(client.adopt(&ticket).await, ErrorKind::Invalid);
    }
    assert!(own.is_valid() && foreign.is_valid());
}

pub(super) async fn not_after_is_enforced_by_the_store(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let owner = lock.acquire().await.unwrap();
    let end = SystemTime::now() + SHORT;
    let ticket = owner.share(Rights::RENEW).with_not_after(end);
    client.renew(&ticket).await.unwrap();
    tokio::time::sleep(SHORT + ms(50)).await;
    assert_eq!(lost(client.renew(&ticket).await), Loss::Capped);
    assert_eq!(lost(client.accept(&ticket).await), Loss::Capped);
    assert!(owner.is_valid(), "the owner's lease has no such end");
    client.check(&ticket).await.unwrap();

    // A bearer that alone keeps it alive loses it then, and no later.
    let (client, lock) = super::kit::lock(fixture, "y").await;
    let owner = lock.ttl(SHORT).keep_alive(false).acquire().await.unwrap();
    let most = 2 * SHORT;
    let began = client.now();
    let ticket = owner.share(Rights::RENEW).with_not_after(SystemTime::now() + most);
    let bearer = client.accept(&ticket).await.unwrap();
    assert_eq!(bearer.lost().await, Loss::Capped);
    let took = client.now().since(began);
    assert!(took > SHORT && took < most + EPSILON, "{took:?}");
}

pub(super) async fn a_ticket_survives_its_text_and_hides_its_secret(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let owner = lock.acquire().await.unwrap();
    let ticket = owner.share(Rights::RENEW).with_not_after(SystemTime::now() + EPSILON);
    let text = ticket.encode();
    let again: Ticket = text.parse().unwrap();
    assert_eq!(again, ticket);
    assert_eq!((again.name(), again.fence(), again.ttl()), (owner.name(), owner.fence(), owner.ttl()));
    client.check(&again).await.unwrap();
    assert!(!format!("{ticket:?}").contains(&text));
    for cut in [&text[..text.len() - 2], &text[1..], "", "lease1.", "lease1.AAAA", "some other text"] {
        let error = cut.parse::<Ticket>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{cut}");
        assert!(cut.len() < 10 || !error.to_string().contains(cut), "a message must not repeat the secret");
    }
}

pub(super) async fn a_hand_over_fences_the_giver_out(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let remote = fixture.client().await;
    let giver = lock.ttl(SHORT).acquire().await.unwrap();
    let given = giver.fence();
    let old = giver.share(Rights::ALL);
    let sharer = client.accept(&old).await.unwrap();
    let ticket: Ticket = giver.hand_over().await.unwrap().encode().parse().unwrap();
    assert!(ticket.fence() > given || !fixture.given().fence);
    let receiver = remote.adopt(&ticket).await.unwrap();

    assert_eq!(sharer.lost().await, Loss::Overtaken, "whoever went by the old id is told");
    assert_eq!(lost(client.check(&old).await), Loss::Overtaken);
    assert_eq!(lost(client.renew(&old).await), Loss::Overtaken);
    assert!(!client.release(&old).await.unwrap());
    tokio::time::sleep(SHORT).await;
    assert_eq!(receiver.loss(), None);
    assert_eq!(seen(&client, receiver.name()).await.holders[0].fence, ticket.fence());
    assert!(receiver.release().await.unwrap());
}

pub(super) async fn an_adopted_lease_is_released_when_dropped(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let ticket = lock.acquire().await.unwrap().hand_over().await.unwrap();
    contended(lock.try_acquire().await);
    drop(client.adopt(&ticket).await.unwrap());
    freed(&client, lock.name()).await;
}

pub(super) async fn a_detached_lease_is_neither_kept_nor_released(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let lease = lock.clone().ttl(SHORT).acquire().await.unwrap();
    let (fence, deadline) = (lease.fence(), lease.deadline());
    let ticket = lease.detach();
    client.clone().close().await;
    client.check(&ticket).await.unwrap();
    let adopted = fixture.client().await.adopt(&ticket).await.unwrap();
    assert_eq!(adopted.fence(), fence);
    let ticket = adopted.detach();
    until("it expires", async || client.check(&ticket).await.is_err()).await;
    assert!(client.now() >= deadline);
    assert!(lock.try_acquire().await.unwrap().release().await.unwrap());
}

pub(super) async fn a_bearer_relies_on_no_more_than_its_ticket_gives(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let owner = lock.acquire().await.unwrap();
    let soon = SystemTime::now() + 2 * SHORT;
    let bearer = client.accept(&owner.share(Rights::RENEW).with_not_after(soon)).await.unwrap();
    assert!(bearer.remaining().unwrap() <= 2 * SHORT, "{bearer:?}");
    assert!(owner.remaining().unwrap() > 2 * SHORT, "the owner's is not shortened");
    // A ticket that ends cannot be made to end later.
    let later = owner.share(Rights::RENEW).with_not_after(soon).with_not_after(soon + LONG);
    assert!(later.not_after().unwrap() <= soon);
    drop(bearer);
    assert!(owner.release().await.unwrap());
}

pub(super) async fn a_sharer_does_not_pass_on_what_it_does_not_have(fixture: &Fixture) {
    let (client, lock) = lock(fixture, "x").await;
    let owner = lock.acquire().await.unwrap();
    let ticket = owner.share(Rights::RENEW);
    assert_kind(client.accept(&ticket).await.unwrap().hand_over().await, ErrorKind::Invalid);
    let passed_on = client.accept(&ticket).await.unwrap().detach();
    assert_eq!(passed_on.rights(), Rights::RENEW);
    assert_kind(client.release(&passed_on).await, ErrorKind::Invalid);
    owner.renew().await.unwrap();
    assert!(owner.release().await.unwrap());
}
