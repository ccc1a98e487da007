//! Where a connection lives: on the runtime of whoever opens it, or on a thread of its own where there is none.

use std::{fmt, future::Future, io};

use tokio::{runtime::Handle, sync::oneshot};

/// A runtime that reads for us.
pub(super) struct Host {
    runtime: Handle,
    /// Dropped, it ends the thread of our own.
    _own: Option<oneshot::Sender<()>>,
}

impl Host {
    /// The runtime that we are on, which must have I/O enabled, or a new one.
    pub(super) fn here() -> io::Result<Self> {
        match Handle::try_current() {
            Ok(runtime) => Ok(Self { runtime, _own: None }),
            Err(_) => Self::own(),
        }
    }

    /// A new one, on a thread of its own.
    pub(super) fn own() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let handle = runtime.handle().clone();
        let (own, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("leasehold-redis".into());
        thread.spawn(move || {
            // Ends when the sender is dropped; nothing is ever sent.
            runtime.block_on(ended).ok();
        })?;
        Ok(Self { runtime: handle, _own: Some(own) })
    }

    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}
