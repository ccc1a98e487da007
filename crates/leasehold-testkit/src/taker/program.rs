//! The taker's own side.

use std::{
    io::{BufRead, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{Client, Lease, Lock};
use tokio::sync::broadcast;

use super::{Job, Order, Task};
use crate::{
    history::{Event, Recorder, What},
    resource,
};

/// How often a holder does something.
const STEP: Duration = Duration::from_millis(5);

/// The program.
pub fn main() {
    let job = std::env::args().nth(1).expect("lock-taker JOB, as JSON");
    let job: Job = serde_json::from_str(&job).expect("a job is JSON");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(run(Arc::new(job)));
}

async fn run(job: Arc<Job>) {
    let client = leasehold::open(&job.url).await.unwrap_or_else(|error| panic!("{error}"));
    let (sender, orders) = broadcast::channel(64);
    let ending = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    let local = tokio::task::LocalSet::new();
    for task in 1..=job.tasks {
        let party = if job.tasks == 1 { job.party.clone() } else { format!("{}/{task}", job.party) };
        let (client, job, orders, ending) = (client.clone(), job.clone(), orders.resubscribe(), ending.clone());
        let recorder = Arc::new(Recorder::new(party, |event| print(&event)));
        let party = Party { recorder, client, job, orders, ending };
        tasks.spawn_local_on(party.take_turns(), &local);
    }
    // When all of them listen.
    take_orders(sender, ending);
    local.run_until(async { while tasks.join_next().await.transpose().unwrap().is_some() {} }).await;
    client.close().await;
}

/// Reads orders until there are no more, and then ends the process.
fn take_orders(sender: broadcast::Sender<Order>, ending: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let order: Order = serde_json::from_str(&line).expect("an order is JSON");
            ending.fetch_or(order == Order::End, Ordering::Relaxed);
            let _ = sender.send(order);
        }
        std::process::exit(0);
    });
}

struct Party {
    recorder: Arc<Recorder>,
    client: Client,
    job: Arc<Job>,
    orders: broadcast::Receiver<Order>,
    ending: Arc<AtomicBool>,
}

impl Party {
    async fn take_turns(mut self) {
        if self.job.on_order {
            self.told(Order::Go).await;
        }
        let mut rounds = 0;
        while !self.ending.load(Ordering::Relaxed) && self.job.rounds.is_none_or(|most| rounds < most) {
            rounds += 1;
            self.take_turn().await;
        }
    }

    async fn take_turn(&mut self) {
        let job = self.job.clone();
        if let Task::Count { file, pause_ms, locked: false } = &job.task {
            resource::add_one(file, Duration::from_millis(*pause_ms));
            return;
        }
        self.recorder.says(What::Asking);
        let lease = self.lock().acquire().await.unwrap_or_else(|error| panic!("{error}"));
        if !self.recorder.acquired(&lease) {
            return;
        }
        match &job.task {
            Task::Keep => self.work_until_told(&lease).await,
            Task::Hold(ms) => self.work_for(&lease, Duration::from_millis(*ms)).await,
            Task::Count { file, pause_ms, .. } => {
                resource::add_one(file, Duration::from_millis(*pause_ms));
            }
            Task::Write { file, fenced } => {
                self.told(Order::Write).await;
                let accepted = resource::write(file, self.recorder.party(), lease.fence().filter(|_| *fenced));
                self.recorder.says(What::Wrote { accepted });
            }
        }
        if self.recorder.ends(&lease) {
            let held = lease.release().await.unwrap_or_else(|error| panic!("{error}"));
            self.recorder.says(What::Released { held });
        }
    }

    fn lock(&self) -> Lock {
        let (recorder, told) = (self.recorder.clone(), AtomicBool::new(false));
        let lock = self.client.lock(self.job.name.as_str()).unwrap_or_else(|error| panic!("{error}"));
        let lock = lock.ttl(Duration::from_millis(self.job.ttl_ms)).owner(self.recorder.party());
        lock.on_wait(move |waiting| {
            if waiting.position.is_some() && !told.swap(true, Ordering::Relaxed) {
                recorder.says(What::Queued);
            }
        })
    }

    async fn work_until_told(&mut self, lease: &Lease) {
        while self.recorder.works(lease) {
            tokio::select! {
                biased;
                _ = lease.lost() => {}
                order = self.orders.recv() => if matches!(order, Ok(Order::Release | Order::End) | Err(_)) {
                    return;
                },
                () = tokio::time::sleep(STEP) => {}
            }
        }
    }

    async fn work_for(&self, lease: &Lease, span: Duration) {
        let end = self.client.now() + span;
        while self.client.now() < end && self.recorder.works(lease) {
            tokio::time::sleep(STEP.min(end.since(self.client.now()))).await;
        }
    }

    async fn told(&mut self, wanted: Order) {
        while self.orders.recv().await.expect("the process ends before its orders do") != wanted {}
    }
}

fn print(event: &Event) {
    let event = serde_json::to_string(event).expect("an event is JSON");
    // Whoever listened may be gone; then this process ends soon, too.
    let _ = writeln!(std::io::stdout().lock(), "{event}");
}
