//! Tells calls that their time is up.
//!
//! One timer for a connection, not one for each call: it looks when the next call may be due, and while there is traffic
//! that is once for each time-out's length.

use std::sync::Arc;

use super::link::Link;
use crate::clock::Timer;

/// Until the link is broken.
pub(super) async fn watch(link: Arc<Link>, mut timer: Box<dyn Timer>) {
    while let Some(next) = link.sweep() {
        tokio::select! {
            () = timer.until(next) => {}
            () = link.rouse_watch.notified() => {}
        }
    }
}
