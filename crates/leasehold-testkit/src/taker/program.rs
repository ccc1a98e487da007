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
    history::{Event, What},
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
    take_orders(sender, ending.clone());

    let parties = (1..=job.tasks).map(|task| {
        let party = if job.tasks == 1 { job.party.clone() } else { format!("{}/{task}", job.party) };
        let (client, job, orders, ending) = (client.clone(), job.clone(), orders.resubscribe(), ending.clone());
        async move { Party { party, client, job, orders, ending }.take_turns().await }
    });
    // In order: the first is first in the queue.
    let mut tasks = tokio::task::JoinSet::new();
    let local = tokio::task::LocalSet::new();
    for party in parties {
        tasks.spawn_local_on(party, &local);
    }
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
    party: String,
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
        self.says(What::Asking);
        let lease = self.lock().acquire().await.unwrap_or_else(|error| panic!("{}: {error}", self.party));
        self.says(What::Acquired { fence: lease.fence() });
        let held = match &job.task {
            Task::Keep => self.work_until_told(&lease).await,
            Task::Hold(ms) => self.work_for(&lease, Duration::from_millis(*ms)).await,
            Task::Count { file, pause_ms, .. } => {
                resource::add_one(file, Duration::from_millis(*pause_ms));
                true
            }
            Task::Write { file, fenced } => {
                self.told(Order::Write).await;
                let accepted = resource::write(file, &self.party, lease.fence().filter(|_| *fenced));
                self.says(What::Wrote { accepted });
                true
            }
        };
        if held {
            self.says(What::Releasing);
            let held = lease.release().await.unwrap_or_else(|error| panic!("{}: {error}", self.party));
            self.says(What::Released { held });
        }
    }

    fn lock(&self) -> Lock {
        let (party, clock, told) = (self.party.clone(), self.client.clone(), AtomicBool::new(false));
        let lock = self.client.lock(self.job.name.as_str()).unwrap_or_else(|error| panic!("{error}"));
        lock.ttl(Duration::from_millis(self.job.ttl_ms)).owner(self.party.clone()).on_wait(move |waiting| {
            if waiting.position.is_some() && !told.swap(true, Ordering::Relaxed) {
                print(&party, clock.now().nanos(), What::Queued);
            }
        })
    }

    /// Says whether the lease is still to be given back.
    async fn work_until_told(&mut self, lease: &Lease) -> bool {
        loop {
            tokio::select! {
                biased;
                _ = lease.lost() => {}
                order = self.orders.recv() => if matches!(order, Ok(Order::Release | Order::End) | Err(_)) {
                    return true;
                },
                () = tokio::time::sleep(STEP) => {}
            }
            if !self.work(lease) {
                return false;
            }
        }
    }

    async fn work_for(&self, lease: &Lease, span: Duration) -> bool {
        let end = self.client.now() + span;
        while self.client.now() < end {
            if !self.work(lease) {
                return false;
            }
            tokio::time::sleep(STEP.min(end.since(self.client.now()))).await;
        }
        true
    }

    /// One step under the lease, unless it is lost.
    fn work(&self, lease: &Lease) -> bool {
        let at = self.client.now().nanos();
        match lease.loss() {
            None => {
                print(&self.party, at, What::Worked);
                true
            }
            Some(loss) => {
                self.says(What::Lost { loss, deadline: lease.deadline().nanos() });
                false
            }
        }
    }

    async fn told(&mut self, wanted: Order) {
        while self.orders.recv().await.expect("the process ends before its orders do") != wanted {}
    }

    fn says(&self, what: What) {
        print(&self.party, self.client.now().nanos(), what);
    }
}

fn print(party: &str, at: u64, what: What) {
    let event = serde_json::to_string(&Event { party: party.to_owned(), at, what }).expect("an event is JSON");
    let mut stdout = std::io::stdout().lock();
    // Whoever listened may be gone; then this process ends soon, too.
    let _ = writeln!(stdout, "{event}");
}
