//! What keeps the database small: idle names are swept, the log is written back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rusqlite::{Connection, MAIN_DB, OpenFlags, config::DbConfig, wal::CheckpointMode};

use super::{
    Core,
    database::{Database, signed, unsigned},
    faults::is_busy,
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

/// The log is written back when it has so many frames. While many write it cannot be written back as a whole, which is
/// what lets it start anew.
const LONG_LOG: u32 = if cfg!(test) { 200 } else { 1000 };

/// Writers are made to wait for that when it has so many.
const HUGE_LOG: u32 = 4 * LONG_LOG;

/// Whoever opens the database alone has to read the whole log, so that short commands keep it shorter. Only one in
/// [`CARETAKERS`] of them does, or each would pay for a log that a busy process fills again at once.
const SHORT_LOG: u32 = 100;
const CARETAKERS: u32 = 8;

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
        // Others may be in the way: the next try is not with the next commit.
        self.log_limit = frames + limit;
        true
    }

    pub(super) fn is_settled(&self) -> bool {
        self.commits.get() >= SETTLED
    }

    /// Writes the log back and cuts it, for a process that may be about to end. The caller has the turnstile.
    ///
    /// A log that was written back is used again from its start, but whoever opens the database alone cannot see that
    /// it was.
    pub(super) fn cut_log(&self) {
        write_back(&self.connection, CheckpointMode::TRUNCATE);
    }

    /// Leaves a short log to those who open the database next. The caller has the turnstile.
    pub(super) fn cut_log_at_end(&self) {
        if self.log.load(Ordering::Relaxed) >= SHORT_LOG {
            self.cut_log();
        }
    }
}

/// Writes the log back while others go on, on a thread and a connection of its own: the disk may take its time.
#[derive(Debug, Default)]
pub(super) struct Caretaker {
    at_work: AtomicBool,
}

impl Caretaker {
    pub(super) fn start(core: &Arc<Core>) {
        if core.caretaker.at_work.swap(true, Ordering::AcqRel) {
            return;
        }
        let started = thread::Builder::new().name("leasehold-sqlite".into()).spawn({
            let core = core.clone();
            move || {
                if let Err(error) = work(&core) {
                    tracing::warn!(%error, "the log could not be written back, and grows");
                }
                core.caretaker.at_work.store(false, Ordering::Release);
            }
        });
        if let Err(error) = started {
            core.caretaker.at_work.store(false, Ordering::Release);
            tracing::warn!(%error, "the log could not be written back, and grows");
        }
    }
}

fn work(core: &Core) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&core.place.path, flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(Duration::ZERO)?;
    // A connection does not know of the log before it has read something.
    connection.pragma_query_value(None, "user_version", |_| Ok(()))?;
    let left = write_back(&connection, CheckpointMode::PASSIVE);
    if left.is_some_and(|frames| frames >= HUGE_LOG) {
        let _turn = core.turnstile.pass();
        write_back(&connection, CheckpointMode::PASSIVE);
    }
    Ok(())
}

/// How many frames the log has, if some of them came meanwhile.
fn write_back(connection: &Connection, mode: CheckpointMode) -> Option<u32> {
    match connection.wal_checkpoint_v2(Some(MAIN_DB), mode) {
        Ok((frames, written)) => {
            tracing::debug!(frames, written, "wrote the log back");
            (written < frames).then_some(frames.unsigned_abs())
        }
        Err(error) => {
            if is_busy(&error) {
                tracing::debug!(%error, "another writes the log back");
            } else {
                tracing::warn!(%error, "the log could not be written back, and grows");
            }
            None
        }
    }
}
