//! A request that had no answer, and is carried out when nobody expects it any more.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::Client;
use crate::{
    clock::SystemClock,
    engine::{ClaimReply, Command, HoldReply, Renew, Reply},
    entropy::SystemEntropy,
    error::Error,
    id::ClientId,
    name::Name,
    store::{Answer, Hint, Promises, Store},
    stores::{self, StoreUrl},
    view::LeaseView,
};

/// The memory store, behind a network that holds the first claim back.
#[derive(Debug)]
struct Tardy {
    store: Arc<dyn Store>,
    held_back: Mutex<Option<(Name, Command)>>,
}

impl Tardy {
    async fn client() -> (Client, Arc<Self>) {
        let url = StoreUrl::parse("memory:").unwrap();
        let store = stores::open(&url, SystemClock::shared(), &SystemEntropy).unwrap();
        let tardy = Arc::new(Self { store, held_back: Mutex::default() });
        (Client::builder().store(tardy.clone()).open().await.unwrap(), tardy)
    }

    /// The claim arrives at last.
    async fn let_through(&self) -> Reply {
        let (name, command) = self.held_back.lock().unwrap().take().expect("a claim was held back");
        self.store.apply(&name, command).await.unwrap()
    }
}

impl Store for Tardy {
    fn promises(&self) -> Promises {
        self.store.promises()
    }

    fn fingerprint(&self) -> &str {
        self.store.fingerprint()
    }

    fn client(&self) -> Option<ClientId> {
        self.store.client()
    }

    fn apply<'a>(&'a self, name: &'a Name, command: Command) -> Answer<'a, Reply> {
        let mut held_back = self.held_back.lock().unwrap();
        if held_back.is_none() && matches!(command, Command::Claim(_)) {
            *held_back = Some((name.clone(), command));
            return Box::pin(async { Err(Error::unavailable("no answer came", "wait")) });
        }
        drop(held_back);
        self.store.apply(name, command)
    }

    fn renew_all(&self, renewals: Vec<(Name, Renew)>) -> Answer<'_, Vec<Result<HoldReply, Error>>> {
        self.store.renew_all(renewals)
    }

    fn inspect<'a>(&'a self, name: &'a Name) -> Answer<'a, LeaseView> {
        self.store.inspect(name)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<LeaseView>> {
        self.store.list(prefix)
    }

    fn next_hint(&self) -> Answer<'_, Hint> {
        self.store.next_hint()
    }
}

#[tokio::test]
async fn a_claim_that_arrives_after_the_release_leaves_no_ghost() {
    let (client, network) = Tardy::client().await;
    let lease = client.lock("x").unwrap().acquire().await.unwrap();
    assert!(lease.release().await.unwrap());
    assert_eq!(network.let_through().await, Reply::Claim(ClaimReply::Gone));
}

#[tokio::test]
async fn a_claim_that_arrives_after_giving_up_leaves_no_ghost() {
    let (client, network) = Tardy::client().await;
    let other = Client::builder().store(network.store.clone()).open().await.unwrap();
    let held = other.lock("x").unwrap().acquire().await.unwrap();
    let wait = Duration::from_millis(300);
    client.lock("x").unwrap().acquire_timeout(wait).await.unwrap_err();
    assert_eq!(network.let_through().await, Reply::Claim(ClaimReply::Gone));
    assert!(held.release().await.unwrap());
}
