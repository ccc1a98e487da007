//! What the cases have in common.

use std::time::{Duration, Instant};

/// Pins this process, and whatever it starts, to one core.
pub(crate) fn pin() {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(1);
    if rustix::thread::sched_setaffinity(None, &cores).is_err() {
        cores = rustix::thread::CpuSet::new();
        cores.set(0);
        rustix::thread::sched_setaffinity(None, &cores).expect("there is a first core");
    }
}

/// Prints the command line, and when it ran: what stands above each committed result.
pub(crate) fn heading() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    println!("# leasehold-bench {}", args.join(" "));
}

pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// The share `of` (0 to 1) of the sorted samples lies below this.
pub(crate) fn quantile(samples: &mut [Duration], of: f64) -> Duration {
    samples.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    let index = ((samples.len() - 1) as f64 * of) as usize;
    samples[index]
}

pub(crate) fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

/// p50 and p90 of a series.
pub(crate) fn show(what: &str, samples: &mut [Duration]) -> f64 {
    let (p50, p90) = (micros(quantile(samples, 0.5)), micros(quantile(samples, 0.9)));
    println!("{what:<44} p50 {p50:>9.1} µs   p90 {p90:>9.1} µs   n {}", samples.len());
    p50
}

/// A SQLite file of the same durability as the embedded store, and one transaction on it.
pub(crate) struct Bare(rusqlite::Connection);

impl Bare {
    pub(crate) fn open(path: &std::path::Path) -> Self {
        let connection = rusqlite::Connection::open(path).expect("a new file");
        connection
            .execute_batch(
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;
                 CREATE TABLE IF NOT EXISTS t (name TEXT PRIMARY KEY, value BLOB NOT NULL);",
            )
            .expect("a new database");
        Self(connection)
    }

    /// Reads a row and writes it: what any lock on SQLite has to do for a step.
    pub(crate) fn commit(&self, value: &[u8]) {
        let run = |sql: &str| self.0.prepare_cached(sql).expect("valid SQL").execute(()).map(|_| ()).expect("runs");
        run("BEGIN IMMEDIATE");
        let mut select = self.0.prepare_cached("SELECT value FROM t WHERE name = 'x'").expect("valid SQL");
        let before: Option<Vec<u8>> = select.query_row((), |row| row.get(0)).ok();
        std::hint::black_box(before);
        let mut upsert = self
            .0
            .prepare_cached("INSERT INTO t VALUES ('x', ?1) ON CONFLICT (name) DO UPDATE SET value = excluded.value")
            .expect("valid SQL");
        upsert.execute([value]).expect("runs");
        run("COMMIT");
    }
}
