//! A continuously held lease: of several servers one is in charge, and when it fails another takes over.
//!
//! ```sh
//! cargo run --example long_standing_owner
//! ```
//!
//! Each server wants the same name for as long as it lives. The lease is renewed while its holder makes progress, and
//! runs out when it hangs, is killed or loses its machine. Here the servers are tasks of one process, so that the
//! example ends; in earnest each is a process, and the store is `sqlite:/var/lib/app/leases.db`, or wherever your leases
//! are.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::Client;
use tokio::sync::mpsc;

const STORE: &str = "memory:long_standing_owner";

/// A server that died is replaced after this, and not before.
const TTL: Duration = Duration::from_secs(1);

/// One that takes longer than this over a step hangs, and is replaced as if it had died.
const STEP: Duration = Duration::from_millis(500);

/// What a server tells the world.
struct InCharge {
    server: &'static str,
    /// Whatever the servers write to can refuse one that comes with a smaller number than it has seen.
    fence: Option<u64>,
}

/// Is in charge whenever it can be.
async fn serve(
    client: Client,
    server: &'static str,
    hangs: Arc<AtomicBool>,
    news: mpsc::Sender<InCharge>,
) -> Result<(), leasehold::Error> {
    let lock = client.lock("scheduler")?.ttl(TTL).owner(server).reason("runs the schedule");
    loop {
        // Waits in line, and is woken when it is its turn.
        let lease = lock.acquire().await?;
        println!("{server} is in charge with fence {:?}", lease.fence());
        let _ = news.send(InCharge { server, fence: lease.fence() }).await;

        let progress = lease.while_progress(STEP);
        let work = async {
            while !hangs.load(Ordering::Relaxed) {
                tokio::time::sleep(STEP / 10).await;
                progress.tick();
            }
            std::future::pending::<()>().await;
        };
        // The work is dropped where it stands the moment that the lease is lost, and before anyone else has it.
        if let Err(lost) = lease.guard(work).await {
            println!("{server} is no longer in charge: {lost}");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let (news, mut in_charge) = mpsc::channel(8);
    let first_hangs = Arc::new(AtomicBool::new(false));
    let mut servers = Vec::new();
    for (server, hangs) in [("first", first_hangs.clone()), ("second", Arc::default()), ("third", Arc::default())] {
        let client = leasehold::open(STORE).await?;
        servers.push(tokio::spawn(serve(client, server, hangs, news.clone())));
        // So that they stand in line in this order.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let onlooker = leasehold::open(STORE).await?;
    let name = "scheduler".parse()?;

    let first = in_charge.recv().await.ok_or("nobody took charge")?;
    assert_eq!(first.server, "first");
    // Far longer than the ttl: it is held on and on.
    tokio::time::sleep(2 * TTL).await;
    assert_eq!(onlooker.inspect(&name).await?.holders[0].fence, first.fence);

    first_hangs.store(true, Ordering::Relaxed);
    let second = in_charge.recv().await.ok_or("nobody took over")?;
    assert_eq!(second.server, "second");
    assert!(second.fence > first.fence, "what the first still writes is refused by now");

    // Shut down in good order, it gives the lease back, and nobody has to wait for the ttl.
    servers[1].abort();
    let third = in_charge.recv().await.ok_or("nobody took over")?;
    assert!(third.server == "third" && third.fence > second.fence);
    Ok(())
}
