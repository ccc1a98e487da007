//! A store behind a network that fails as it is told to.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    Client, ClientId, Error, LeaseView, Name, Promises,
    engine::{Command, HoldReply, Renew, Reply, Request as _},
    store::{Answer, Hint, Store},
};

use crate::Fixture;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out, and answered.
    Answered,
    /// It is carried out, and its answer is lost.
    Unanswered,
    /// It is lost, or comes so late that nobody waits for it any more: see [`Network::let_through`].
    HeldBack,
    /// It is carried out, and its answer takes a while.
    Slow(Duration),
    /// Nothing is ever heard of it.
    Hangs,
}

type Decides = Box<dyn FnMut(&Command) -> Fate + Send>;

/// A store of which each request meets its fate.
pub struct Network {
    world: Fixture,
    store: Arc<dyn Store>,
    decides: Mutex<Decides>,
    held_back: Mutex<VecDeque<(Name, Command)>>,
}

impl Network {
    /// In front of a store in memory, on which nothing fails until that is [asked for](Self::decide).
    pub async fn new() -> Arc<Self> {
        let world = Fixture::memory();
        let store = world.client().await.store().clone();
        let decides: Decides = Box::new(|_| Fate::Answered);
        Arc::new(Self { world, store, decides: Mutex::new(decides), held_back: Mutex::default() })
    }

    /// A client that goes through the network.
    pub async fn client(self: &Arc<Self>) -> Client {
        Client::builder().store(self.clone()).open().await.unwrap()
    }

    /// A client that has a way of its own to the store, on which nothing fails.
    pub async fn bystander(&self) -> Client {
        self.world.client().await
    }

    /// From now on this decides.
    pub fn decide(&self, decides: impl FnMut(&Command) -> Fate + Send + 'static) {
        *self.decides.lock().unwrap() = Box::new(decides);
    }

    /// Decides so for the next request of this kind, and lets the others pass.
    pub fn once(&self, fate: Fate, kind: impl Fn(&Command) -> bool + Send + 'static) {
        let mut due = true;
        self.decide(move |command| {
            if due && kind(command) {
                due = false;
                fate
            } else {
                Fate::Answered
            }
        });
    }

    /// The first request that was held back arrives at last.
    pub async fn let_through(&self) -> Reply {
        let late = self.held_back.lock().unwrap().pop_front();
        let (name, command) = late.expect("something was held back");
        self.store.apply(&name, command).await.unwrap()
    }

    async fn carry(&self, name: &Name, command: Command) -> Result<Reply, Error> {
        let fate = (self.decides.lock().unwrap())(&command);
        let lost = || Error::unavailable("the network lost it", "try again");
        match fate {
            Fate::Answered => self.store.apply(name, command).await,
            Fate::Unanswered => self.store.apply(name, command).await.and(Err(lost())),
            Fate::HeldBack => {
                self.held_back.lock().unwrap().push_back((name.clone(), command));
                Err(lost())
            }
            Fate::Slow(span) => {
                let reply = self.store.apply(name, command).await;
                // On no runtime in particular: the keeper's has no timers.
                let (done, waits) = tokio::sync::oneshot::channel();
                std::thread::spawn(move || {
                    std::thread::sleep(span);
                    done.send(())
                });
                let _ = waits.await;
                reply
            }
            Fate::Hangs => std::future::pending().await,
        }
    }
}

impl Store for Network {
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
        Box::pin(self.carry(name, command))
    }

    fn renew_all(&self, renewals: Vec<(Name, Renew)>) -> Answer<'_, Vec<Result<HoldReply, Error>>> {
        Box::pin(async move {
            let mut replies = Vec::with_capacity(renewals.len());
            for (name, renew) in renewals {
                replies.push(self.carry(&name, renew.into()).await.and_then(Renew::reply));
            }
            Ok(replies)
        })
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

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("store", &self.store).finish_non_exhaustive()
    }
}
