//! A test's handle of a taker.

use std::{
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use leasehold::clock::{Clock as _, SystemClock};
use rustix::process::{Pid, Signal, kill_process};

use super::{Job, Order};
use crate::history::{Event, What};

/// The longest that a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running taker. Dropped, it is killed.
#[derive(Debug)]
pub struct Taker {
    party: String,
    child: Child,
    events: Receiver<Event>,
    seen: Vec<Event>,
    /// How far [`Taker::wait_for`] has read.
    read: usize,
}

impl Taker {
    /// Starts the program `lock-taker`.
    pub fn start(program: &Path, job: &Job) -> Self {
        let mut child = Command::new(program)
            .arg(serde_json::to_string(job).expect("a job is JSON"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Killed while it wrote: half a line is no event.
                let Ok(event) = serde_json::from_str(&line) else { continue };
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        Self { party: job.party.clone(), child, events, seen: Vec::new(), read: 0 }
    }

    /// What it is called.
    pub fn party(&self) -> &str {
        &self.party
    }

    /// Tells it something.
    pub fn order(&mut self, order: Order) {
        let mut line = serde_json::to_string(&order).expect("an order is JSON");
        line.push('\n');
        // One that is gone does not listen; its test finds out by its events.
        let _ = self.child.stdin.as_mut().expect("stdin is piped").write_all(line.as_bytes());
    }

    /// The next event of this kind, which may have come before this call.
    pub fn wait_for(&mut self, wanted: impl Fn(&What) -> bool) -> Event {
        let end = SystemClock.now() + PATIENCE;
        loop {
            while self.read < self.seen.len() {
                self.read += 1;
                if wanted(&self.seen[self.read - 1].what) {
                    return self.seen[self.read - 1].clone();
                }
            }
            match self.events.recv_timeout(end.since(SystemClock.now())) {
                Ok(event) => self.seen.push(event),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{}: nothing of that kind came: {:#?}", self.party, self.tail())
                }
                Err(RecvTimeoutError::Disconnected) => panic!("{}: it ended: {:#?}", self.party, self.tail()),
            }
        }
    }

    /// Waits until it holds the name, and gives its fence and when that was.
    pub fn acquired(&mut self) -> (u64, u64) {
        let event = self.wait_for(|what| matches!(what, What::Acquired { .. }));
        match event.what {
            What::Acquired { fence } => (fence.unwrap_or_default(), event.at),
            other => panic!("{other:?} was not waited for"),
        }
    }

    /// Waits until it stands in the queue.
    pub fn queued(&mut self) {
        self.wait_for(|what| *what == What::Queued);
    }

    /// Everything it has said so far, and what was done to it.
    pub fn so_far(&mut self) -> &[Event] {
        while let Ok(event) = self.events.try_recv() {
            self.seen.push(event);
        }
        &self.seen
    }

    fn tail(&self) -> &[Event] {
        &self.seen[self.seen.len().saturating_sub(12)..]
    }

    /// Kills it with -9, and waits until it is gone.
    pub fn kill(&mut self) {
        self.note(What::Signalled);
        let _ = self.child.kill();
        self.child.wait().unwrap();
        self.note(What::Killed);
    }

    /// Stops it, and waits until it stands still.
    pub fn stop(&mut self) {
        self.note(What::Signalled);
        kill_process(self.pid(), Signal::STOP).unwrap();
        while !self.stands_still() {
            std::thread::sleep(Duration::from_micros(200));
        }
        self.note(What::Stopped);
    }

    /// Lets it go on.
    pub fn go_on(&mut self) {
        // Noted first: it may speak as soon as it goes on.
        self.note(What::Continued);
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Waits for its end, and gives everything it said.
    pub fn finish(mut self) -> Vec<Event> {
        let end = SystemClock.now() + PATIENCE;
        loop {
            match self.events.recv_timeout(end.since(SystemClock.now())) {
                Ok(event) => self.seen.push(event),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("{} does not end: {:#?}", self.party, self.tail()),
            }
        }
        let status = self.child.wait().unwrap();
        let killed = self.seen.iter().any(|event| event.what == What::Killed);
        assert!(status.success() || killed, "{} failed: {status}", self.party);
        std::mem::take(&mut self.seen)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn stands_still(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // After the name in parentheses; `Z` if it ended meanwhile.
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        matches!(state, Some('T' | 'Z') | None)
    }

    fn note(&mut self, what: What) {
        // What it said before comes before.
        self.so_far();
        self.seen.push(Event { party: self.party.clone(), at: SystemClock.now().nanos(), what });
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
