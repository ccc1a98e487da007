//! Makes a new connection when the old one breaks, for as long as anyone wants one.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{Phase, Push, Shared, dial::Dialed, driver::Driver, fault::Fault, link::Link, watch::watch};

/// The pause after the second failure in a row; doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A connection that is looked after. Dropped with the runtime that did so, it says that somebody else has to.
pub(super) struct Charge(pub(super) Arc<Shared>);

impl Drop for Charge {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if !matches!(state.phase, Phase::Closed) {
            let fault = Fault::transient("the runtime that the connection lived on was shut down", "try again");
            state.phase = Phase::Orphaned(fault);
        }
    }
}

/// How the first attempt ended.
pub(super) type First = oneshot::Sender<Result<(), Fault>>;

/// Until the connection is closed. `first` learns how the first attempt ends; if it fails there is no other.
pub(super) async fn supervise(charge: Charge, mut first: Option<First>) {
    let shared = &charge.0;
    let Ok(mut timer) = shared.clock.timer() else { return };
    let mut pause = Duration::ZERO;
    loop {
        let attempt = tokio::select! {
            attempt = attempt(shared) => attempt,
            () = shared.closed.notified() => return,
        };
        let fault = match attempt {
            Ok((driver, early)) => {
                if let Some(first) = first.take() {
                    first.send(Ok(())).ok();
                }
                let began = shared.clock.now();
                let fault = driver.run(early).await;
                // One that is cut off each time it is made must not be made over and over without a pause.
                if shared.clock.now().since(began) >= LONGEST_PAUSE {
                    pause = Duration::ZERO;
                }
                fault
            }
            Err(fault) => {
                if let Some(first) = first.take() {
                    shared.state().phase = Phase::Closed;
                    first.send(Err(fault)).ok();
                    return;
                }
                fault
            }
        };
        {
            let mut state = shared.state();
            if matches!(state.phase, Phase::Closed) {
                return;
            }
            tracing::warn!(?fault, "no connection to redis; trying again");
            state.phase = Phase::Down(fault);
        }
        tokio::select! {
            () = timer.until(shared.clock.now() + shared.entropy.jitter(pause, 0.5)) => {}
            () = shared.closed.notified() => return,
        }
        pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
    }
}

async fn attempt(shared: &Arc<Shared>) -> Result<(Driver, Vec<Push>), Fault> {
    let channels = shared.channels().clone();
    let Dialed { exchange, facts, early } = shared.dialer.dial(&channels).await?;
    let timer = shared.clock.timer().map_err(|error| Fault::io(&error))?;
    let epoch = {
        let mut state = shared.state();
        state.epoch += 1;
        state.epoch
    };
    tracing::debug!(server = facts.version(), epoch, "connected to redis");
    let link = Link::new(exchange.writer, facts, epoch, shared.clock.clone(), shared.limits);
    tokio::spawn(watch(link.clone(), timer));
    let driver = Driver::new(link.clone(), exchange.reader, exchange.inbox, shared.on_push.clone());
    let mut state = shared.state();
    if matches!(state.phase, Phase::Closed) {
        return Err(super::ended());
    }
    state.phase = Phase::Up(link.clone());
    drop(state);
    // Channels that were added while we connected.
    for channel in shared.channels().iter().filter(|channel| !channels.contains(channel)) {
        drop(link.subscribe(channel));
    }
    Ok((driver, early))
}
