//! A store to be tested.

use std::{
    any::Any,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use leasehold::{Client, Promises, store::Store};

type Opener = dyn Fn() -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send>> + Send + Sync;

/// A fresh place to keep leases, in which nothing is held, and any number of clients of it.
pub struct Fixture {
    scheme: String,
    given: Promises,
    way_in: WayIn,
    /// A directory or a server that lasts as long as the fixture.
    kept: Option<Box<dyn Any + Send + Sync>>,
}

enum WayIn {
    Url(String),
    Opener(Box<Opener>),
}

impl Fixture {
    /// The store of a URL that this build knows; what it has to promise is in the [table](crate::given).
    pub fn url(url: impl Into<String>) -> Self {
        let url = url.into();
        let scheme = url.split(':').next().unwrap_or_default().to_owned();
        let given = crate::given::promises(&scheme)
            .unwrap_or_else(|| panic!("{scheme}: is not in the table of what stores are given to promise"));
        Self { scheme, given, way_in: WayIn::Url(url), kept: None }
    }

    /// A store from elsewhere: `open` makes one more client of the same place each time.
    pub fn opened_by<F>(
        scheme: impl Into<String>,
        given: Promises,
        open: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Arc<dyn Store>> + Send + 'static,
    {
        let opener: Box<Opener> = Box::new(move || Box::pin(open()));
        Self { scheme: scheme.into(), given, way_in: WayIn::Opener(opener), kept: None }
    }

    /// Keeps `thing` for as long as the fixture is used.
    #[must_use]
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self.kept = Some(Box::new(thing));
        self
    }

    /// A world of its own in this process.
    pub fn memory() -> Self {
        static WORLDS: AtomicU32 = AtomicU32::new(0);
        Self::url(format!("memory:testkit-{}", WORLDS.fetch_add(1, Ordering::Relaxed)))
    }

    /// A database of its own.
    pub fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("the system has room for a directory");
        let path = directory.path().join("leases.db");
        Self::url(format!("sqlite:{}", path.display())).keeping(directory)
    }

    /// The scheme.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// What the store is given to promise.
    pub fn given(&self) -> Promises {
        self.given
    }

    /// Where other processes find the store.
    pub fn url_for_others(&self) -> &str {
        match &self.way_in {
            WayIn::Url(url) => url,
            WayIn::Opener(_) => panic!("a store that is not opened by URL cannot be given to other processes"),
        }
    }

    /// One more client.
    pub async fn client(&self) -> Client {
        match &self.way_in {
            WayIn::Url(url) => leasehold::open(url).await,
            WayIn::Opener(open) => Client::builder().store(open().await).open().await,
        }
        .unwrap_or_else(|error| panic!("{self:?} does not open: {error}\nhint: {}", error.hint()))
    }
}

impl fmt::Debug for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fixture({}:)", self.scheme)
    }
}
