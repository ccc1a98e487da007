//! Steps of the engine as transactions.

use std::collections::HashSet;

use rusqlite::Connection;

use super::{
    database::{Database, signed},
    faults::{explain_commit, is_busy},
    mailbox::Mailbox,
    row::{self, Row},
};
use crate::{
    clock::Clock,
    engine::{self, Applied, Claim, ClaimReply, Command, Record, Reply, Span},
    error::Error,
    id::AttemptId,
    name::Name,
    stores::registers::SharedClock,
};

/// A step on each of several names, in order.
pub(super) type Steps = Vec<(Name, Command)>;

/// What they came to.
pub(super) type Outcomes = Vec<Result<Applied, Error>>;

/// What steps need beside the database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) clock: &'a dyn Clock,
    pub(super) mailbox: &'a Mailbox,
}

/// How a transaction went.
#[derive(Debug)]
pub(super) enum Attempt {
    /// Committed, if there was anything to commit.
    Done(Outcomes),
    /// Nothing was done, since that would take longer than the caller can wait.
    TooLong,
}

/// Attempts of ours that were left waiting when they were last heard of. Whoever asks again for one of them has been
/// woken, and usually has only to look.
#[derive(Debug, Default)]
pub(super) struct Waiting(HashSet<AttemptId>);

impl Waiting {
    /// Only speed is lost when one is forgotten.
    const MOST: usize = 1 << 16;

    fn note(&mut self, command: &Command, reply: &Reply) {
        match (command, reply) {
            (Command::Claim(claim), Reply::Claim(ClaimReply::Queued(_))) => {
                if self.0.len() >= Self::MOST {
                    self.0.clear();
                }
                self.0.insert(claim.id);
            }
            (Command::Claim(Claim { id, .. }), _) => self.forget(*id),
            (Command::Leave(leave), _) => self.forget(leave.id),
            (Command::Release(release), _) => self.forget(release.id),
            _ => {}
        }
    }

    fn forget(&mut self, id: AttemptId) {
        if !self.0.is_empty() {
            self.0.remove(&id);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether somebody may be given a lease: not in a database that others have left for another.
pub(super) fn takes(steps: &[(Name, Command)]) -> bool {
    steps.iter().any(|(_, command)| matches!(command, Command::Claim(_)))
}

/// Whether the commit may have to reach the disk.
fn may_last_forever(command: &Command) -> bool {
    matches!(command, Command::Claim(Claim { ttl: Span::NEVER, .. }))
}

impl Database {
    /// Whether a look at the record usually answers this.
    pub(super) fn may_be_read(&self, command: &Command) -> bool {
        match command {
            Command::Check(_) => true,
            Command::Claim(claim) => self.waiting.0.contains(&claim.id),
            _ => false,
        }
    }

    /// Answers without a transaction if nothing has to be written.
    pub(super) fn glance(
        &mut self,
        name: &Name,
        command: &Command,
        clock: &dyn Clock,
    ) -> rusqlite::Result<Option<Result<Applied, Error>>> {
        let Row { era, mut record, .. } = match self.row(name)? {
            Some(Ok(row)) => row,
            Some(Err(error)) => return Ok(Some(Err(error))),
            // The floor of fences matters to grants only, and those are written.
            None => Row { id: 0, era: self.era, record: Record::default() },
        };
        let evidence = SharedClock::read(clock, self.floor()).stale(era != self.era);
        let applied = engine::apply(&mut record, command, &evidence);
        if applied.changed {
            return Ok(None);
        }
        self.waiting.note(command, &applied.reply);
        Ok(Some(Ok(applied)))
    }

    /// Carries the steps out in one transaction. The caller has the turnstile.
    pub(super) fn transact(
        &mut self,
        steps: &[(Name, Command)],
        around: Surroundings<'_>,
        patient: bool,
    ) -> Result<Attempt, Error> {
        let mut durable = steps.iter().any(|(_, command)| may_last_forever(command));
        loop {
            if durable {
                if !patient {
                    return Ok(Attempt::TooLong);
                }
                self.set_durable(true).map_err(|error| self.explain(error))?;
            }
            let attempt = self.attempt(steps, around, durable);
            if durable {
                self.set_durable(false).map_err(|error| self.explain(error))?;
            }
            match attempt {
                Ok(Some(outcomes)) => return Ok(Attempt::Done(outcomes)),
                Ok(None) => durable = true,
                Err(Fault::Sqlite(error)) if !patient && is_busy(&error) => return Ok(Attempt::TooLong),
                Err(Fault::Sqlite(error)) => return Err(self.explain(error)),
                Err(Fault::Commit(error)) => return Err(explain_commit(&self.path, error)),
                Err(Fault::Ours(error)) => return Err(error),
            }
        }
    }

    /// `None`: it has to be durable, and was not going to be.
    fn attempt(
        &mut self,
        steps: &[(Name, Command)],
        around: Surroundings<'_>,
        durable: bool,
    ) -> Result<Option<Outcomes>, Fault> {
        // Steps borrow the rest of the database.
        let mut buffer = std::mem::take(&mut self.buffer);
        let attempted = self.attempt_with(&mut buffer, steps, around, durable);
        self.buffer = buffer;
        if let Ok(Some(outcomes)) = &attempted {
            for ((_, command), applied) in steps.iter().zip(outcomes) {
                if let Ok(applied) = applied {
                    self.waiting.note(command, &applied.reply);
                }
            }
        }
        attempted
    }

    fn attempt_with(
        &self,
        buffer: &mut Vec<u8>,
        steps: &[(Name, Command)],
        around: Surroundings<'_>,
        durable: bool,
    ) -> Result<Option<Outcomes>, Fault> {
        let transaction = Transaction::begin(&self.connection)?;
        if takes(steps) {
            self.require_newest().map_err(Fault::Ours)?;
        }
        let mut outcomes = Vec::with_capacity(steps.len());
        let mut changed = false;
        for (name, command) in steps {
            let stepped = self.step(buffer, name, command, around)?;
            if let Ok(Stepped { applied, lasting }) = &stepped {
                changed |= applied.changed;
                if *lasting && !durable {
                    return Ok(None);
                }
            }
            outcomes.push(stepped.map(|stepped| stepped.applied));
        }
        if changed {
            self.commits.update(|count| count.wrapping_add(1));
            if self.sweep_is_due() {
                self.sweep(around.clock)?;
            }
            transaction.commit().map_err(Fault::Commit)?;
            #[cfg(test)]
            self.durable_commits.update(|count| count + u32::from(durable));
        }
        Ok(Some(outcomes))
    }

    /// The inner error is about this name alone.
    fn step(
        &self,
        buffer: &mut Vec<u8>,
        name: &Name,
        command: &Command,
        around: Surroundings<'_>,
    ) -> Result<Result<Stepped, Error>, Fault> {
        let mut found = match self.find(name)? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let evidence = SharedClock::read(around.clock, found.floor).stale(found.era != self.era);
        let before = row::forever(&found.record);
        let mut applied = engine::apply(&mut found.record, command, &evidence);
        if let (Command::Claim(claim), Reply::Claim(ClaimReply::Queued(_))) = (command, &applied.reply)
            && claim.client == Some(around.mailbox.client())
            // Before the commit: whoever reads the record may send at once.
            && !around.mailbox.open()
        {
            // Nobody can wake us. Without an address we are not taken for dead.
            found = match self.find(name)? {
                Ok(found) => found,
                Err(error) => return Ok(Err(error)),
            };
            let claim = Claim { client: None, ..claim.clone() };
            applied = engine::apply(&mut found.record, &claim.into(), &evidence);
        }
        if applied.changed {
            self.write(buffer, name, &found, around.clock)?;
        }
        let lasting = applied.changed && row::forever(&found.record) != before;
        Ok(Ok(Stepped { applied, lasting }))
    }

    fn find(&self, name: &Name) -> rusqlite::Result<Result<Found, Error>> {
        Ok(match self.row(name)? {
            Some(Ok(Row { id, era, record })) => Ok(Found { id: Some(id), era, record, floor: self.floor() }),
            Some(Err(error)) => Err(error),
            None => {
                let floor = self.floor_of_swept()?;
                Ok(Found { id: None, era: self.era, record: Record::default(), floor })
            }
        })
    }

    fn write(&self, buffer: &mut Vec<u8>, name: &Name, found: &Found, clock: &dyn Clock) -> Result<(), Fault> {
        row::encode(&found.record, buffer).map_err(Fault::Ours)?;
        let (era, touched) = (signed(self.era), signed(clock.now().nanos() / 1_000_000_000));
        if let Some(id) = found.id {
            let update = "UPDATE leases SET era = ?2, touched = ?3, record = ?4 WHERE rowid = ?1";
            self.connection.prepare_cached(update)?.execute((id, era, touched, &buffer[..]))?;
        } else {
            let insert = "INSERT INTO leases(name, era, touched, record) VALUES (?1, ?2, ?3, ?4)";
            self.connection.prepare_cached(insert)?.execute((name.as_str(), era, touched, &buffer[..]))?;
        }
        Ok(())
    }
}

/// The record of a name, there or not.
struct Found {
    id: Option<i64>,
    era: u64,
    record: Record,
    floor: u64,
}

struct Stepped {
    applied: Applied,
    /// A lease that never expires came or went: that must outlast a power cut.
    lasting: bool,
}

enum Fault {
    Sqlite(rusqlite::Error),
    Commit(rusqlite::Error),
    Ours(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Rolled back unless it is committed, whatever happens in between.
struct Transaction<'a> {
    connection: &'a Connection,
    open: bool,
}

impl<'a> Transaction<'a> {
    fn begin(connection: &'a Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
        Ok(Self { connection, open: true })
    }

    fn commit(mut self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("COMMIT")?.execute(())?;
        self.open = false;
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // An error such as a full disk has rolled it back already.
        if self.open
            && !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::warn!(%error, "a transaction could not be undone");
        }
    }
}
