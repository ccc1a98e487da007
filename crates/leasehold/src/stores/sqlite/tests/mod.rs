//! The embedded store, with real files and real processes.

mod opening;
mod processes;
mod records;
mod time;
mod waking;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::{
    clock::{Moment, SystemClock, Timer},
    engine::{Claim, ClaimReply, Grant, Queueing, Release, ReleaseReply, Request, Span, Who},
    id::AttemptId,
};

/// A clock that stands still unless it is moved. Starts an hour after boot, in November 2026.
#[derive(Debug)]
struct HandClock {
    nanos: AtomicU64,
    wall_ms: AtomicU64,
}

impl HandClock {
    fn new() -> Arc<Self> {
        Arc::new(Self { nanos: AtomicU64::new(3_600_000_000_000), wall_ms: AtomicU64::new(1_794_775_433_140) })
    }

    fn pass(&self, seconds: u64) {
        self.nanos.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
        self.wall_ms.fetch_add(seconds * 1000, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn wall_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn timer(&self) -> std::io::Result<Box<dyn Timer>> {
        Err(std::io::Error::other("nobody waits on this clock"))
    }
}

/// Gives the one number.
#[derive(Debug)]
struct Fixed(u128);

impl Entropy for Fixed {
    fn bits(&self) -> u128 {
        self.0
    }
}

/// A directory with a database in it, and the machine it is on.
struct Room {
    directory: TempDir,
    path: PathBuf,
    clock: Arc<HandClock>,
    host: Host,
    clients: AtomicU64,
}

impl Room {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("leases.db");
        let host = Host { boot_id: "boot 1".into(), time_namespace: "time:[1]".into() };
        Self { directory, path, clock: HandClock::new(), host, clients: AtomicU64::new(100) }
    }

    /// The machine starts again. Its clock begins anew, and the time of day goes on.
    fn reboot(&mut self, boot_id: &str) {
        self.host.boot_id = boot_id.into();
        self.clock = HandClock::new();
        self.clock.nanos.store(5_000_000_000, Ordering::SeqCst);
    }

    fn try_open(&self) -> Result<RegisterStore<Sqlite>, Error> {
        self.open_as(self.clients.fetch_add(1, Ordering::SeqCst) * 1_000_003)
    }

    fn open_as(&self, client: u64) -> Result<RegisterStore<Sqlite>, Error> {
        let path = self.path.to_str().unwrap();
        Sqlite::open(path, &self.host, self.clock.clone(), &Fixed(client.into())).map(RegisterStore::new)
    }

    fn open(&self) -> RegisterStore<Sqlite> {
        self.try_open().unwrap()
    }

    /// The file as another program sees it.
    fn raw(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        PathBuf::from(format!("{}{suffix}", self.path.display()))
    }

    fn sockets(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.beside("-wake")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn id(bits: u128) -> AttemptId {
    AttemptId::from_bits(bits)
}

fn ask<C: Request>(store: &dyn Store, text: &str, command: C) -> Result<C::Reply, Error> {
    pollster::block_on(store.apply(&name(text), command.into())).and_then(C::reply)
}

/// For half a minute, without waiting.
fn claim(bits: u128) -> Claim {
    Claim {
        id: id(bits),
        permits: 1,
        capacity: 1,
        ttl: Span::from_millis(30_000),
        max_hold: None,
        told: None,
        client: None,
        queue: None,
        work: None,
        who: Arc::new(Who { owner: format!("owner {bits}").into(), reason: None }),
    }
}

fn queueing(store: &dyn Store, bits: u128) -> Claim {
    let queue = Queueing { waiter_ttl: Span::from_millis(10_000), window: Span::from_millis(1000) };
    Claim { client: store.client(), queue: Some(queue), ..claim(bits) }
}

fn release(bits: u128) -> Release {
    Release { id: id(bits), tenure: None, linger: None, remember: None }
}

fn granted(reply: ClaimReply) -> Grant {
    match reply {
        ClaimReply::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

/// Takes the name and gives it back; the fence that it had.
fn once(store: &dyn Store, text: &str, bits: u128) -> u64 {
    let grant = granted(ask(store, text, claim(bits)).unwrap());
    assert_eq!(ask(store, text, release(bits)).unwrap(), ReleaseReply::Released);
    grant.fence
}

fn copy(from: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        let path = |base: &Path| PathBuf::from(format!("{}{suffix}", base.display()));
        fs::copy(path(from), path(to)).unwrap();
    }
}
