//! A process that takes locks and says what happens to it.
//!
//! `lock-taker JOB` does the [`Job`] (JSON), prints each [`Event`](crate::history::Event) as a line of JSON on stdout, and takes
//! [`Order`]s from stdin. When stdin ends, so does the process: one whose test died does not stay behind.
//! [`Taker`] is the handle of such a process in a test.

mod handle;
mod program;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use handle::Taker;
pub use program::main;

/// What a taker does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The store.
    pub url: String,
    /// The name that it takes.
    pub name: String,
    /// What it is called in the history.
    pub party: String,
    /// How long its grants last, in milliseconds.
    pub ttl_ms: u64,
    /// How often it takes the name; `None`: until it is told to end.
    pub rounds: Option<u32>,
    /// How many of its tasks take it: each is a party of its own, `party/1` and so on if there are several.
    pub tasks: u32,
    /// Wait for [`Order::Go`].
    pub on_order: bool,
    /// What it does with the name.
    pub task: Task,
}

impl Job {
    /// Takes `name` once, as soon as it runs, and keeps it until it is told.
    pub fn new(url: &str, name: &str, party: impl Into<String>) -> Self {
        let (url, name, party) = (url.to_owned(), name.to_owned(), party.into());
        Self { url, name, party, ttl_ms: 30_000, rounds: Some(1), tasks: 1, on_order: false, task: Task::Keep }
    }

    /// The same with another ttl.
    #[must_use]
    pub fn ttl_ms(mut self, ttl_ms: u64) -> Self {
        self.ttl_ms = ttl_ms;
        self
    }

    /// The same with another task.
    #[must_use]
    pub fn task(mut self, task: Task) -> Self {
        self.task = task;
        self
    }

    /// The same, so often; `None`: until it is told to end.
    #[must_use]
    pub fn rounds(mut self, rounds: Option<u32>) -> Self {
        self.rounds = rounds;
        self
    }
}

/// What a taker does with the name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Works, looking at its lease before each step, until it is told to release.
    Keep,
    /// Works so many milliseconds.
    Hold(u64),
    /// Adds one to the number in a file.
    Count {
        /// The file.
        file: PathBuf,
        /// How long it thinks between reading and writing, in milliseconds.
        pause_ms: u64,
        /// Whether it takes the name for that, or does without.
        locked: bool,
    },
    /// Writes its party's name into a register when it is told, without another look at its lease.
    Write {
        /// The register.
        file: PathBuf,
        /// Whether it shows its fence.
        fenced: bool,
    },
}

/// What a taker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Begin.
    Go,
    /// Give the name back.
    Release,
    /// Write.
    Write,
    /// Take the name no more.
    End,
}
