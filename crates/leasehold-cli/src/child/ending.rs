//! The end of a CMD whose lease is lost.

use std::time::Duration;

use rustix::process::Signal;
use tokio::{select, time::sleep};

use super::{Child, Signals, Watch, now};

/// How often to look whether the rest of the group is gone: its end is told to init, not to us.
const LOOK: Duration = Duration::from_millis(10);

/// How long SIGKILL may take before we give up on it: a process may hang in the kernel.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends the group: SIGTERM, then SIGKILL, early enough to be gone at the deadline. After the deadline, SIGKILL at once.
/// Says whether all of it is gone.
pub(super) async fn end(child: &mut Child, signals: &mut Signals, watch: &mut Watch<'_>) -> bool {
    let kill_at = watch.deadline().min(now() + watch.grace) - time_to_die(watch.grace);
    if now() < kill_at {
        child.signal(Signal::TERM);
        // What is stopped cannot hear it.
        child.signal(Signal::CONT);
        while !child.is_gone() {
            select! {
                biased;
                () = watch.timer.until(kill_at) => break,
                signal = signals.next() => child.signal(signal),
                _ = child.change() => {}
                () = sleep(LOOK), if child.ended => {}
            }
        }
    }
    if child.is_gone() {
        return true;
    }
    child.signal(Signal::KILL);
    let give_up = now() + PATIENCE;
    while !child.is_gone() {
        select! {
            biased;
            _ = child.change() => {}
            () = sleep(LOOK), if child.ended => {}
            () = watch.timer.until(give_up) => return false,
        }
    }
    true
}

/// What is kept of the grace for SIGKILL to take effect.
fn time_to_die(grace: Duration) -> Duration {
    (grace / 4).min(Duration::from_millis(500))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_of_the_grace_is_the_commands() {
        assert_eq!(time_to_die(Duration::from_secs(5)), Duration::from_millis(500));
        assert_eq!(time_to_die(Duration::from_millis(100)), Duration::from_millis(25));
    }
}
