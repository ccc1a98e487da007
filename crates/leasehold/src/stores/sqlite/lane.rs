//! The thread for what takes longer than a caller can wait. It is started when it is first needed.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use tokio::sync::oneshot;

use super::{
    Core,
    transact::{Outcomes, Steps},
};
use crate::{engine::Command, error::Error, id::ClientId};

/// So many steps have the turnstile at most before others get a turn.
const STEPS_AT_ONCE: usize = 512;

/// What the thread is asked to do, in this order.
pub(super) enum Job {
    /// Steps.
    Commit(Steps, Reply),
    /// Something short with the connection.
    Read(Box<dyn FnOnce(&Core) + Send>),
    /// A hint for a client that has not read its earlier ones yet.
    Post(ClientId, Vec<u8>),
}

type Reply = oneshot::Sender<Result<Outcomes, Error>>;

/// The way to the thread.
#[derive(Debug, Default)]
pub(super) struct Lane {
    jobs: Mutex<Option<Sender<Job>>>,
    open: Arc<AtomicUsize>,
}

impl Lane {
    /// Whether jobs are open: who comes now has to stand behind them.
    pub(super) fn is_busy(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }

    pub(super) fn add(&self, core: &Arc<Core>, job: Job) -> Result<(), Error> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &*jobs {
            Some(sender) => sender,
            None => jobs.insert(start(core.clone(), self.open.clone())?),
        };
        self.open.fetch_add(1, Ordering::AcqRel);
        sender.send(job).map_err(|_| {
            // The next job finds a new thread.
            *jobs = None;
            self.open.store(0, Ordering::Release);
            Error::internal("the thread of the embedded store ended early")
        })
    }
}

fn start(core: Arc<Core>, open: Arc<AtomicUsize>) -> Result<Sender<Job>, Error> {
    let (sender, jobs) = channel();
    let thread = thread::Builder::new().name("leasehold-sqlite".into()).spawn(move || run(&core, &jobs, &open));
    match thread {
        Ok(_) => Ok(sender),
        Err(error) => {
            let failed = Error::unavailable("no thread can be started", "try again when the system has more to give");
            Err(failed.because(error))
        }
    }
}

/// Until the store is dropped.
fn run(core: &Arc<Core>, jobs: &Receiver<Job>, open: &AtomicUsize) {
    let mut next = None;
    while let Some(job) = next.take().or_else(|| jobs.recv().ok()) {
        match job {
            Job::Commit(steps, reply) => {
                let mut together = vec![(steps, reply)];
                let mut count = together[0].0.len();
                // What has come meanwhile can share the commit.
                while count < STEPS_AT_ONCE
                    && let Ok(job) = jobs.try_recv()
                {
                    match job {
                        Job::Commit(steps, reply) => {
                            count += steps.len();
                            together.push((steps, reply));
                        }
                        other => {
                            next = Some(other);
                            break;
                        }
                    }
                }
                let done = together.len();
                commit(core, together);
                open.fetch_sub(done, Ordering::AcqRel);
            }
            Job::Read(read) => {
                read(core);
                open.fetch_sub(1, Ordering::AcqRel);
            }
            Job::Post(client, letter) => {
                core.mailbox.post_patiently(client, &letter);
                open.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
    core.cut_log_at_end();
}

fn commit(core: &Arc<Core>, mut together: Vec<(Steps, Reply)>) {
    if together.len() > 1 {
        let lengths: Vec<usize> = together.iter().map(|(steps, _)| steps.len()).collect();
        let all: Steps = together.iter_mut().flat_map(|(steps, _)| steps.drain(..)).collect();
        let outcomes = core.commit_patiently(&all);
        let mut all = all.into_iter();
        for (length, (steps, _)) in lengths.iter().zip(&mut together) {
            *steps = all.by_ref().take(*length).collect();
        }
        if let Ok(outcomes) = outcomes {
            let mut outcomes = outcomes.into_iter();
            let parts = lengths.into_iter().map(|length| Ok(outcomes.by_ref().take(length).collect()));
            return answer(core, together.into_iter().zip(parts).collect());
        }
        // Each is to have an answer of its own: one at a time.
    }
    for (steps, reply) in together {
        let outcomes = in_parts(core, &steps);
        answer(core, vec![((steps, reply), outcomes)]);
    }
}

/// Whoever asked may be gone, and those who are to be woken are told all the same.
fn answer(core: &Arc<Core>, answers: Vec<((Steps, Reply), Result<Outcomes, Error>)>) {
    let wakes = |outcomes: &Outcomes| outcomes.iter().flatten().any(|applied| !applied.wakes.is_empty());
    // Those who wake nobody need not wait until others were told.
    let (telling, silent): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|(_, outcomes)| outcomes.as_ref().is_ok_and(wakes));
    for ((_, reply), outcomes) in silent {
        let _ = reply.send(outcomes);
    }
    let mut unread = Vec::new();
    for ((steps, reply), mut outcomes) in telling {
        for ((name, _), applied) in steps.iter().zip(outcomes.iter_mut().flatten()) {
            if let Ok(applied) = applied
                && !applied.wakes.is_empty()
            {
                core.deliver(name, std::mem::take(&mut applied.wakes), &mut unread);
            }
        }
        let _ = reply.send(outcomes);
    }
    for (client, letter) in unread {
        core.mailbox.post_patiently(client, &letter);
    }
}

/// Many steps let others through between their parts.
fn in_parts(core: &Arc<Core>, steps: &[(crate::Name, Command)]) -> Result<Outcomes, Error> {
    let mut outcomes = Vec::with_capacity(steps.len());
    for part in steps.chunks(STEPS_AT_ONCE) {
        outcomes.append(&mut core.commit_patiently(part)?);
    }
    Ok(outcomes)
}
