//! The file: what it says about itself, and the connection to it.

use std::{
    cell::Cell,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use rusqlite::{Connection, MAIN_DB, OpenFlags, OptionalExtension, config::DbConfig};

use super::{
    faults::explain,
    host::Host,
    place::Place,
    row::{self, Row},
    transact::Waiting,
    turnstile::Turnstile,
};
use crate::{
    clock::Clock,
    engine,
    error::Error,
    id::ClientId,
    name::Name,
    stores::registers::{SharedClock, visible},
    view::LeaseView,
};

/// "LSHD", where `file` and other programs see whose database it is.
pub(super) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"LSHD");

/// The layout of the tables.
pub(super) const SCHEMA: i32 = 1;

/// Small pages, since a commit writes whole ones: a record with its queue fits into one, and those who open the
/// database alone have the log to read.
const CREATE: &str = "
    CREATE TABLE leases(
        name TEXT NOT NULL PRIMARY KEY,
        era INTEGER NOT NULL,
        touched INTEGER NOT NULL,
        record BLOB NOT NULL
    ) STRICT;
    CREATE TABLE meta(
        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        boot_id TEXT NOT NULL,
        time_namespace TEXT NOT NULL,
        era INTEGER NOT NULL,
        floor INTEGER NOT NULL,
        swept TEXT NOT NULL
    ) STRICT;
";

/// How long SQLite may wait for a lock of its own, where waiting is allowed: only other programs, and the first one to
/// open the database, make it wait at all.
pub(super) const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(500) } else { Duration::from_secs(5) };

/// How long the turnstile is waited for at the first open, which is on the caller's own thread.
const OPENING: Duration = if cfg!(test) { Duration::from_secs(2) } else { Duration::from_secs(5) };

/// Fences of one boot have so many bits; those of the next begin above them. Power loss may undo the last commits, but
/// it implies a new boot, and the number of boots is on the disk before it is used.
const FENCE_BITS: u32 = 40;
const MOST_ERAS: u64 = 1 << 20;

/// An open database of this boot.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    /// Which boot this is, by our count.
    pub(super) era: u64,
    pub(super) buffer: Vec<u8>,
    /// Attempts of ours that wait.
    pub(super) waiting: Waiting,
    pub(super) commits: Cell<u32>,
    #[cfg(test)]
    pub(super) durable_commits: Cell<u32>,
    /// A random number, so that not everyone tidies up at the same time.
    pub(super) lot: u32,
    /// Frames in the write-ahead log after our last commit.
    pub(super) log: Arc<AtomicU32>,
    /// The log is left alone until it has so many.
    pub(super) log_limit: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Identity {
    Ours,
    Empty,
}

#[derive(Debug, PartialEq, Eq)]
struct Boot {
    id: String,
    time_namespace: String,
    era: u64,
    floor: u64,
}

impl Database {
    /// Opens the database, makes its tables if it is empty, and enters this boot if it is a new one; `on_new_boot` is
    /// then called while nobody else writes.
    pub(super) fn open(
        place: &Place,
        turnstile: &Turnstile,
        host: &Host,
        clock: &dyn Clock,
        client: ClientId,
        on_new_boot: impl FnOnce(),
    ) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&place.path, flags).map_err(|e| explain(&place.path, e))?;
        let mut database = Self {
            connection,
            path: place.path.clone(),
            era: 0,
            buffer: Vec::new(),
            waiting: Waiting::default(),
            commits: Cell::new(0),
            #[cfg(test)]
            durable_commits: Cell::new(0),
            #[expect(clippy::cast_possible_truncation, reason = "any of the random bits will do")]
            lot: client.bits() as u32,
            log: Arc::default(),
            log_limit: 0,
        };
        database.configure().map_err(|error| explain(&place.path, error))?;
        if !matches!(database.identify(), Ok(Identity::Ours)) {
            // Another process may be making it: only now it can be told.
            let _turn = turnstile.pass_within(OPENING)?;
            if database.identify()? == Identity::Empty {
                database.create(host, clock).map_err(|error| explain(&place.path, error))?;
            }
        }
        // A copy that another program made may have lost it.
        if !database.has_log().map_err(|error| explain(&place.path, error))? {
            let _turn = turnstile.pass_within(OPENING)?;
            database.use_log().map_err(|error| explain(&place.path, error))?;
        }
        let mut boot = database.boot().map_err(|error| explain(&place.path, error))?;
        if !(1..MOST_ERAS).contains(&boot.era) || boot.floor > floor_of(MOST_ERAS) {
            return Err(Error::corrupt(
                format!("{} claims to have seen {} boots", place.path.display(), boot.era),
                "nothing was changed; once nobody works under its leases, move the file away",
            ));
        }
        if boot.id != host.boot_id {
            let _turn = turnstile.pass_within(OPENING)?;
            boot = database.enter(host).map_err(|error| explain(&place.path, error))?;
            on_new_boot();
        }
        if boot.time_namespace != host.time_namespace {
            return Err(Error::refused(
                format!("{} is in use in another time namespace, whose clock is not ours", place.path.display()),
                "use it from processes of one time namespace only, or give these a store of their own",
            ));
        }
        database.era = boot.era;
        database.wait_for_locks(Duration::ZERO);
        Ok(database)
    }

    fn configure(&mut self) -> rusqlite::Result<()> {
        self.wait_for_locks(PATIENCE);
        // A short command would pay for writing back everybody's log; see `upkeep` for who does.
        self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let log = self.log.clone();
        self.connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, frames: i32| {
            log.store(frames.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        }))?;
        self.set_durable(false)
    }

    /// Whose it is. Nothing is changed before that is known.
    fn identify(&self) -> Result<Identity, Error> {
        let path = self.path.display();
        let explain = |error| explain(&self.path, error);
        let number = |pragma| self.connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
        let (application, schema) =
            (number("application_id").map_err(explain)?, number("user_version").map_err(explain)?);
        match (application, schema) {
            (APPLICATION_ID, SCHEMA) => {}
            (APPLICATION_ID, newer) if newer > SCHEMA => {
                return Err(Error::unsupported(
                    format!(
                        "{path} was made by a later version of Leasehold (schema {newer}, and this knows {SCHEMA})"
                    ),
                    "upgrade Leasehold here",
                ));
            }
            (APPLICATION_ID, other) => {
                return Err(Error::corrupt(
                    format!("{path} claims to have the schema {other}, which no version of Leasehold makes"),
                    "nothing was changed; once nobody works under its leases, move the file away",
                ));
            }
            _ => {
                let tables = "SELECT count(*) FROM sqlite_schema";
                let tables: i64 = self.connection.query_row(tables, (), |row| row.get(0)).map_err(explain)?;
                if (application, schema, tables) == (0, 0, 0) {
                    return Ok(Identity::Empty);
                }
                return Err(Error::invalid(
                    format!("{path} is the database of another program"),
                    "nothing was changed; name another file, or one that does not exist yet",
                ));
            }
        }
        if self.connection.is_readonly(MAIN_DB).map_err(explain)? {
            return Err(Error::refused(
                format!("{path} cannot be written"),
                "the file and its directory must be writable; name another store with --store sqlite:/path/leases.db",
            ));
        }
        Ok(Identity::Ours)
    }

    fn create(&self, host: &Host, clock: &dyn Clock) -> rusqlite::Result<()> {
        // A database that was thrown away and made anew goes on where the clock is, so that its fences usually grow as
        // well. Not if the old one was ahead of the clock: each boot took it 2^40 further, which is 12.7 days of it.
        let micros = clock.wall_ms().saturating_mul(1000).clamp(1 << FENCE_BITS, 1 << 52);
        self.set_durable(true)?;
        self.connection.pragma_update(None, "page_size", 1024)?;
        self.use_log()?;
        let transaction = self.connection.unchecked_transaction()?;
        transaction.execute_batch(CREATE)?;
        transaction.execute(
            "INSERT INTO meta VALUES (1, ?1, ?2, ?3, ?4, '')",
            (&host.boot_id, &host.time_namespace, signed(micros >> FENCE_BITS), signed(micros)),
        )?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
        transaction.commit()?;
        tracing::debug!(path = %self.path.display(), "made a database");
        self.set_durable(false)
    }

    fn has_log(&self) -> rusqlite::Result<bool> {
        self.connection.pragma_query_value(None, "journal_mode", |row| Ok(row.get_ref(0)?.as_str()? == "wal"))
    }

    /// Readers and writers do not wait for each other.
    fn use_log(&self) -> rusqlite::Result<()> {
        self.connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
    }

    fn boot(&self) -> rusqlite::Result<Boot> {
        let meta = "SELECT boot_id, time_namespace, era, floor FROM meta";
        self.connection.query_row(meta, (), |row| {
            Ok(Boot {
                id: row.get(0)?,
                time_namespace: row.get(1)?,
                era: unsigned(row.get(2)?),
                floor: unsigned(row.get(3)?),
            })
        })
    }

    /// Counts a new boot, durably.
    fn enter(&self, host: &Host) -> rusqlite::Result<Boot> {
        self.set_durable(true)?;
        let transaction = self.connection.unchecked_transaction()?;
        let mut boot = self.boot()?;
        // Another process may have been faster.
        if boot.id != host.boot_id {
            let era = boot.era.max(boot.floor >> FENCE_BITS) + 1;
            boot = Boot {
                id: host.boot_id.clone(),
                time_namespace: host.time_namespace.clone(),
                era,
                floor: floor_of(era),
            };
            transaction.execute(
                "UPDATE meta SET boot_id = ?1, time_namespace = ?2, era = ?3, floor = ?4",
                (&boot.id, &boot.time_namespace, signed(boot.era), signed(boot.floor)),
            )?;
            tracing::debug!(path = %self.path.display(), era, "first use since this machine started");
        }
        transaction.commit()?;
        self.set_durable(false)?;
        Ok(boot)
    }

    /// Whether a commit outlasts a power cut. Otherwise the last of them may be undone by one, and then nobody who
    /// could have known is alive.
    pub(super) fn set_durable(&self, durable: bool) -> rusqlite::Result<()> {
        self.connection.execute_batch(if durable { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" })
    }

    /// How long SQLite waits for its locks.
    pub(super) fn wait_for_locks(&self, patience: Duration) {
        self.connection.busy_timeout(patience).expect("a few seconds are a valid time-out");
    }

    /// The floor of fences for a name whose row is there: it remembers its own last fence, unless a power cut undid it.
    pub(super) fn floor(&self) -> u64 {
        floor_of(self.era)
    }

    /// The floor for a name whose row is not there: it may have been swept.
    pub(super) fn floor_of_swept(&self) -> rusqlite::Result<u64> {
        let floor = self.connection.prepare_cached("SELECT floor FROM meta")?.query_row((), |row| row.get(0))?;
        Ok(self.floor().max(unsigned(floor)))
    }

    /// The row of a name. The inner error is about this row alone.
    pub(super) fn row(&self, name: &Name) -> rusqlite::Result<Option<Result<Row, Error>>> {
        let mut select = self.connection.prepare_cached("SELECT rowid, era, record FROM leases WHERE name = ?1")?;
        let row = select.query_row((name.as_str(),), |row| {
            let era = unsigned(row.get(1)?);
            if era > self.era {
                return Ok(Err(self.overtaken()));
            }
            let record = row::decode(name.as_str(), row.get_ref(2)?.as_blob()?);
            let id = row.get(0)?;
            Ok(record.map(|record| Row { id, era, record }))
        });
        row.optional()
    }

    /// Whether this is still the newest boot that the database knows.
    pub(super) fn require_newest(&self) -> Result<(), Error> {
        let era: Result<i64, _> = self
            .connection
            .prepare_cached("SELECT era FROM meta")
            .and_then(|mut meta| meta.query_row((), |row| row.get(0)));
        match era {
            Ok(era) if unsigned(era) == self.era => Ok(()),
            Ok(_) => Err(self.overtaken()),
            Err(error) => Err(explain(&self.path, error)),
        }
    }

    fn overtaken(&self) -> Error {
        Error::refused(
            format!("another machine, or this one after a restart, uses {}", self.path.display()),
            "the embedded store serves the processes of one machine: use a store with a server",
        )
    }

    pub(super) fn inspect(&self, name: &Name, clock: &dyn Clock) -> Result<LeaseView, Error> {
        let Some(row) = self.row(name).map_err(|error| self.explain(error))? else {
            return Ok(LeaseView::free(name.clone()));
        };
        let Row { era, record, .. } = row?;
        Ok(engine::view(name, &record, &SharedClock::read(clock, 0).stale(era != self.era)))
    }

    /// Every name with that prefix that is held or waited for, in order. What cannot be read is left out: it must not
    /// hide the others.
    pub(super) fn list(&self, prefix: &str, clock: &dyn Clock) -> Result<Vec<LeaseView>, Error> {
        let evidence = SharedClock::read(clock, 0);
        let mut views = Vec::new();
        let listed = self.each_from(prefix, |text, era, record| {
            let view = Name::new(text).and_then(|name| {
                let record = row::decode(text, record)?;
                Ok(visible(&name, &record, &evidence.stale(era != self.era)))
            });
            match view {
                Ok(view) => views.extend(view),
                Err(error) => tracing::warn!(name = text, %error, "left out of the list"),
            }
        });
        listed.map(|()| views).map_err(|error| self.explain(error))
    }

    fn each_from(&self, prefix: &str, mut each: impl FnMut(&str, u64, &[u8])) -> rusqlite::Result<()> {
        let rows = "SELECT name, era, record FROM leases WHERE name >= ?1 ORDER BY name";
        let mut rows = self.connection.prepare_cached(rows)?;
        let mut rows = rows.query((prefix,))?;
        while let Some(row) = rows.next()? {
            let name = row.get_ref(0)?.as_str()?;
            if !name.starts_with(prefix) {
                break;
            }
            each(name, unsigned(row.get(1)?), row.get_ref(2)?.as_blob()?);
        }
        Ok(())
    }

    pub(super) fn anyone_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn explain(&self, error: rusqlite::Error) -> Error {
        explain(&self.path, error)
    }
}

/// The first fence of an era.
fn floor_of(era: u64) -> u64 {
    era << FENCE_BITS
}

/// SQLite's numbers have a sign. Nothing of ours comes near it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
