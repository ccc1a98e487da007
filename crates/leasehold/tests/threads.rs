//! What can be sent between threads and shared by them, which no change may take back.

fn sent_and_shared<T: Send + Sync>() {}
fn sent<T: Send>(_: &T) {}

#[test]
fn everything_public_can_be_sent_and_shared() {
    sent_and_shared::<leasehold::Client>();
    sent_and_shared::<leasehold::Lock>();
    sent_and_shared::<leasehold::Lease>();
    sent_and_shared::<leasehold::Progress>();
    sent_and_shared::<leasehold::Ticket>();
    sent_and_shared::<leasehold::Error>();
    sent_and_shared::<leasehold::StoreUrl>();
    sent_and_shared::<leasehold::blocking::Client>();
    sent_and_shared::<leasehold::blocking::Lease>();
    sent_and_shared::<leasehold::compat::ExpLock>();
}

#[tokio::test]
async fn what_is_awaited_can_be_sent() {
    let client = leasehold::open("memory:").await.unwrap();
    let lock = client.lock("x").unwrap();
    sent(&lock.acquire());
    sent(&lock.try_acquire());
    let lease = lock.acquire().await.unwrap();
    sent(&lease.lost());
    sent(&lease.guard(async {}));
    let released = lease.release();
    sent(&released);
    assert!(released.await.unwrap());
    let closed = client.close();
    sent(&closed);
    closed.await;
}
