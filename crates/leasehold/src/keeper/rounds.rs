//! What the keeper's thread does: it sleeps until something is due, sends renewals that are due together, and tells
//! holders whose deadline has come.

use std::{
    sync::{Arc, atomic::Ordering},
    task::Waker,
    time::Duration,
};

use tokio::runtime::Runtime;

use super::{Alarm, Errand, Held, Ring, Shared, agenda::Entry};
use crate::{
    client::{ANSWER, no_answer},
    clock::{Moment, Timer},
    engine::{Command, HoldReply, News, Renew},
    error::Loss,
    name::Name,
    store::Hint,
};

/// How many renewals go to the store in one call.
const BATCH: usize = 512;

/// The thread.
pub(super) fn run(runtime: &Runtime, timer: Box<dyn Timer>, shared: &Arc<Shared>) {
    let _fallen = Fallen(shared);
    runtime.block_on(keep(shared.clone(), timer));
}

/// Should this thread ever end by a bug, nobody goes on believing in a lease, or waits for ever.
struct Fallen<'a>(&'a Shared);

impl Drop for Fallen<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.store(super::FALLEN, Ordering::Release);
            let (leases, wakers) = self.0.agenda().give_up();
            tell(leases.into_iter().map(|held| (held, Loss::Expired)).collect());
            wakers.into_iter().for_each(Waker::wake);
            self.0.idle.notify_waiters();
        }
    }
}

/// The keeper's whole life. Apart from the thread, so that a simulation can run it elsewhere.
async fn keep(shared: Arc<Shared>, mut timer: Box<dyn Timer>) {
    let listener = tokio::spawn(listen(shared.clone()));
    loop {
        let next = round(&shared);
        let done = {
            let agenda = shared.agenda();
            agenda.closing && agenda.errands_open == 0
        };
        if done {
            break;
        }
        tokio::select! {
            biased;
            () = timer.until(next) => {}
            () = shared.rouse.notified() => {}
        }
    }
    listener.abort();
}

/// Does what is due, and says when the next is.
fn round(shared: &Arc<Shared>) -> Moment {
    let now = shared.clock.now();
    let mut renewals: Vec<Arc<Held>> = Vec::new();
    let mut lost: Vec<(Arc<Held>, Loss)> = Vec::new();
    let mut wakers: Vec<Waker> = Vec::new();

    let mut agenda = shared.agenda();
    while let Some(entry) = agenda.take_due(now) {
        let slot = match entry {
            Entry::Lease(slot) => slot,
            Entry::Alarm(slot) => {
                wakers.extend(agenda.ring(slot as usize, Ring::Time));
                continue;
            }
        };
        let held = agenda.lease(slot).clone();
        if now >= held.deadline() {
            agenda.remove_lease(&held);
            let why = held.lapse(now);
            lost.push((held, why));
        } else if held.renewed {
            // Whatever becomes of this renewal, look again in time.
            agenda.reschedule_lease(slot as usize, held.deadline().min(now + held.answer_time()));
            // A store that hangs is not asked again and again.
            if !held.is_stalled(now) && agenda.asked(slot) {
                renewals.push(held);
            }
        } else {
            agenda.reschedule_lease(slot as usize, held.deadline());
        }
    }
    let errands = std::mem::take(&mut agenda.errands);
    let next = agenda.next_due();
    agenda.sleeping_until = next;
    drop(agenda);

    wakers.into_iter().for_each(Waker::wake);
    tell(lost);
    for batch in renewals.chunks(BATCH) {
        tokio::spawn(renew(shared.clone(), batch.to_vec()));
    }
    for (name, errand, until) in errands {
        tokio::spawn(run_errand(shared.clone(), name, errand, until));
    }
    next
}

fn tell(lost: Vec<(Arc<Held>, Loss)>) {
    for (held, loss) in lost {
        tracing::warn!(name = %held.name, fence = held.fence, %loss, "lease lost");
        held.lose(loss);
    }
}

async fn renew(shared: Arc<Shared>, batch: Vec<Arc<Held>>) {
    let sent = shared.clock.now();
    let renewals: Vec<(Name, Renew)> = batch.iter().map(|held| (held.name.clone(), held.renewal())).collect();
    let replies: Vec<_> = match shared.store.renew_all(renewals).await {
        Ok(replies) => replies.into_iter().map(Some).collect(),
        Err(error) => {
            tracing::warn!(leases = batch.len(), %error, "renewals failed, and will be tried again");
            batch.iter().map(|_| None).collect()
        }
    };
    let now = shared.clock.now();
    let mut told = Vec::new();
    let mut agenda = shared.agenda();
    for (held, reply) in batch.into_iter().zip(replies) {
        // Released or lost meanwhile.
        if !agenda.is_kept(&held) {
            continue;
        }
        agenda.answered(held.slot());
        match reply {
            Some(Ok(HoldReply::Held { left })) => {
                held.extend(now, sent, left);
                agenda.reschedule_lease(held.slot(), held.next_due(sent));
            }
            Some(Ok(HoldReply::Lost(loss))) => {
                agenda.remove_lease(&held);
                told.push((held, loss));
            }
            // Neither lost nor held: the old deadline stands, and it is tried again until then.
            failed => {
                if let Some(Err(error)) = failed {
                    tracing::warn!(name = %held.name, %error, "renewal failed, and will be tried again");
                }
                let pause = shared.entropy.jitter(held.answer_time() / 4, 0.5);
                agenda.reschedule_lease(held.slot(), (now + pause).min(held.deadline()));
            }
        }
    }
    let next = agenda.next_due();
    shared.rouse_for(agenda, next);
    tell(told);
}

/// Tries until it is done, refused, or no longer of use.
async fn run_errand(shared: Arc<Shared>, name: Name, errand: Errand, until: Moment) {
    let mut pause = Duration::from_millis(10);
    loop {
        let command = match errand {
            Errand::Release(release) => Command::from(release),
            Errand::Leave(leave) => Command::from(leave),
        };
        let answer = tokio::select! {
            biased;
            answer = shared.store.apply_patiently(&name, command) => answer,
            () = sleep(&shared, ANSWER) => Err(no_answer()),
        };
        match answer {
            Ok(_) => break,
            Err(error) if error.is_transient() && shared.clock.now() < until => {
                tracing::debug!(%name, %error, "could not be given back yet");
            }
            Err(error) => {
                tracing::warn!(%name, %error, "could not be given back, and is left to expire");
                break;
            }
        }
        sleep(&shared, shared.entropy.jitter(pause, 0.5)).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
    shared.agenda().errands_open -= 1;
    shared.idle.notify_waiters();
    // If the client is closed by now, the thread ends.
    shared.rouse.notify_one();
}

/// Hints, for as long as the client lives.
async fn listen(shared: Arc<Shared>) {
    loop {
        match shared.store.next_hint().await {
            Ok(hint) => receive(&shared, &hint),
            Err(error) => {
                tracing::warn!(%error, "no hints for now; waiters ask by themselves");
                sleep(&shared, Duration::from_secs(1)).await;
            }
        }
    }
}

fn receive(shared: &Shared, hint: &Hint) {
    let mut agenda = shared.agenda();
    if let Some(slot) = agenda.waiter(hint.id) {
        let waker = agenda.ring(slot, Ring::News(hint.news));
        drop(agenda);
        waker.into_iter().for_each(Waker::wake);
    } else if hint.news == News::Broken
        && let Some(slot) = agenda.lease_of(hint.id).map(|held| held.slot())
    {
        // A hint only: the renewal that it brings forward learns the truth.
        let now = shared.clock.now();
        agenda.reschedule_lease(slot, now);
        shared.rouse_for(agenda, now);
    }
}

async fn sleep(shared: &Shared, span: Duration) {
    Alarm::new(shared).ring(shared.clock.now() + span).await;
}
