//! The signals that are meant for CMD.

use std::{future::poll_fn, io, task::Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

use super::sys;

/// Those that are passed on.
const FORWARDED: [Signal; 6] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// What was sent to us.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Listens, but not for what we were told to ignore: under `nohup`, a hang-up neither ends the waiting nor CMD,
    /// which inherits that as long as nobody listens.
    pub(crate) fn listen() -> io::Result<Self> {
        let mut signals = Self(Vec::with_capacity(FORWARDED.len() + 1));
        for signal in FORWARDED {
            if !sys::is_ignored(signal) {
                signals.add(signal)?;
            }
        }
        Ok(signals)
    }

    /// Once CMD has started, everything is passed on: CMD may handle what we were told to ignore. So is SIGTSTP, which
    /// comes to us where CMD is not in the foreground.
    pub(super) fn listen_for_child(&mut self) -> io::Result<()> {
        for signal in FORWARDED.into_iter().chain([Signal::TSTP]) {
            if !self.0.iter().any(|(known, _)| *known == signal) {
                self.add(signal)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, number: Signal) -> io::Result<()> {
        self.0.push((number, signal(SignalKind::from_raw(number.as_raw()))?));
        Ok(())
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}
