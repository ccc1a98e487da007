//! What keeps the database small: idle names are swept, the log is written back.

use std::{path::Path, sync::atomic::Ordering};

use rusqlite::{Connection, MAIN_DB, OpenFlags, config::DbConfig, wal::CheckpointMode};

use super::{
    database::{Database, signed, unsigned},
    row,
};
use crate::{
    clock::Clock,
    stores::registers::{SharedClock, is_spent},
};

/// One commit in so many sweeps.
const SWEEP_EVERY: u32 = 128;

/// A sweep looks at so many rows and goes on from there the next time: twice as many as can have been added meanwhile.
const SWEEP_ROWS: u32 = 2 * SWEEP_EVERY;

/// An idle name is kept so long, in seconds: a lock that is taken every day keeps its row.
const IDLE: u64 = 25 * 3600;

/// The log is written back when it has so many frames.
const LONG_LOG: u32 = 1000;

/// Whoever opens the database alone has to read the whole log, so that short commands keep it shorter. Only one in
/// [`CARETAKERS`] of them does, or each would pay for a log that a busy process fills again at once.
const SHORT_LOG: u32 = 100;
const CARETAKERS: u32 = 8;

/// A log of so many frames that others have outrun is written back while they wait.
const VERY_LONG_LOG: u32 = 4 * LONG_LOG;

/// A process that has made so many commits is not a short command.
const SETTLED: u32 = 100;

impl Database {
    pub(super) fn sweep_is_due(&self) -> bool {
        // From a random start, so that short commands take part.
        self.commits.get().wrapping_add(self.lot).is_multiple_of(SWEEP_EVERY)
    }

    /// Removes rows that say nothing but a fence, within a transaction.
    pub(super) fn sweep(&self, clock: &dyn Clock) -> rusqlite::Result<()> {
        let evidence = SharedClock::read(clock, 0);
        let stale = evidence.stale(true);
        let now = clock.now().nanos() / 1_000_000_000;
        let after: String =
            self.connection.prepare_cached("SELECT swept FROM meta")?.query_row((), |row| row.get(0))?;
        let mut last = String::new();
        let mut seen = 0;
        let mut idle = Vec::new();
        let mut floor = 0;
        {
            let rows = "SELECT rowid, name, era, touched, record FROM leases WHERE name > ?1 ORDER BY name LIMIT ?2";
            let mut rows = self.connection.prepare_cached(rows)?;
            let mut rows = rows.query((&after, SWEEP_ROWS))?;
            while let Some(row) = rows.next()? {
                seen += 1;
                let name = row.get_ref(1)?.as_str()?;
                if seen == SWEEP_ROWS {
                    name.clone_into(&mut last);
                }
                let (era, touched) = (unsigned(row.get(2)?), unsigned(row.get(3)?));
                let earlier = era < self.era;
                if !earlier && now.saturating_sub(touched) < IDLE {
                    continue;
                }
                // What cannot be read is left for an operator to see.
                let Ok(record) = row::decode(name, row.get_ref(4)?.as_blob()?) else { continue };
                if is_spent(&record, if earlier { &stale } else { &evidence }) {
                    idle.push(row.get::<_, i64>(0)?);
                    floor = floor.max(record.fence + 1);
                }
            }
        }
        for id in &idle {
            self.connection.prepare_cached("DELETE FROM leases WHERE rowid = ?1")?.execute((id,))?;
        }
        if !idle.is_empty() || last != after {
            let meta = "UPDATE meta SET floor = max(floor, ?1), swept = ?2";
            self.connection.prepare_cached(meta)?.execute((signed(floor), &last))?;
            tracing::debug!(removed = idle.len(), "swept idle names");
        }
        Ok(())
    }

    /// Whether the log has grown so long that it should be written back.
    pub(super) fn log_is_long(&mut self) -> bool {
        let frames = self.log.load(Ordering::Relaxed);
        let cares = !self.is_settled() && self.lot.is_multiple_of(CARETAKERS);
        let limit = if cares { SHORT_LOG } else { LONG_LOG };
        if frames < limit {
            self.log_limit = limit;
        }
        if frames < self.log_limit.max(limit) {
            return false;
        }
        // A reader may be in the way: the next try is not with the next commit.
        self.log_limit = frames + limit;
        true
    }

    pub(super) fn is_settled(&self) -> bool {
        self.commits.get() >= SETTLED
    }

    /// Writes the log back. The caller has the turnstile.
    pub(super) fn write_back(&self) {
        // The start of the log is used again by the next writer that finds it written back, but whoever opens the
        // database alone cannot see that it was: a process that is about to end has to cut it.
        let mode = if self.is_settled() { CheckpointMode::PASSIVE } else { CheckpointMode::TRUNCATE };
        self.write_back_by(mode);
    }

    /// Leaves a short log to those who open the database next.
    pub(super) fn write_back_last(&self) {
        if self.log.load(Ordering::Relaxed) >= SHORT_LOG {
            self.write_back_by(CheckpointMode::TRUNCATE);
        }
    }

    fn write_back_by(&self, mode: CheckpointMode) {
        checkpoint(&self.connection, mode);
    }
}

/// A connection that does nothing but write the log back.
#[derive(Debug)]
pub(super) struct Scribe(Connection);

/// What is left of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Log {
    /// All is written back, or so little is left that it can wait.
    Short,
    /// Others wrote faster for so long that it has grown.
    Outran,
}

impl Scribe {
    pub(super) fn open(path: &Path) -> Option<Self> {
        let open = || {
            let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            // A connection learns by its first look that there is a log.
            connection.query_row("SELECT one FROM meta", (), |_| Ok(()))?;
            Ok(Self(connection))
        };
        open()
            .inspect_err(|error: &rusqlite::Error| tracing::warn!(%error, "the log cannot be written back for now"))
            .ok()
    }

    pub(super) fn write_back(&self) -> Log {
        match checkpoint(&self.0, CheckpointMode::PASSIVE) {
            Some((frames, written)) if written < frames && frames.unsigned_abs() > VERY_LONG_LOG => Log::Outran,
            _ => Log::Short,
        }
    }
}

/// How many frames the log has, and how many of them are written back.
fn checkpoint(connection: &Connection, mode: CheckpointMode) -> Option<(i32, i32)> {
    match connection.wal_checkpoint_v2(Some(MAIN_DB), mode) {
        Ok((frames, written)) => {
            tracing::debug!(frames, written, "wrote the log back");
            Some((frames, written))
        }
        Err(error) if super::faults::is_busy(&error) => {
            tracing::debug!(%error, "the log is in use");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "the log could not be written back, and grows");
            None
        }
    }
}
