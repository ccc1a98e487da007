//! Waiting for a time, or for news, on the keeper's one timer: no runtime of the application's is needed.

use std::{future::poll_fn, task::Poll};

use super::Shared;
use crate::{clock::Moment, engine::News, id::AttemptId, name::Name};

/// What rang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// The time has come.
    Time,
    /// A hint from the store.
    News(News),
}

/// An alarm. Dropped, it is off.
#[derive(Debug)]
pub(crate) struct Alarm<'a> {
    shared: &'a Shared,
    slot: usize,
    listens: Option<(Name, AttemptId)>,
}

impl<'a> Alarm<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared, slot: shared.agenda().add_alarm(), listens: None }
    }

    /// Rings for news of this attempt too. To be called before the claim is sent: news may be faster than the reply.
    pub(crate) fn listen(&mut self, name: &Name, id: AttemptId) {
        self.stop_listening();
        self.shared.agenda().add_waiter(self.slot, name, id);
        self.listens = Some((name.clone(), id));
    }

    /// Waits until `at`, or for news that comes or came earlier.
    pub(crate) async fn ring(&mut self, at: Moment) -> Ring {
        self.set(at);
        poll_fn(|context| match self.shared.agenda().take_ring(self.slot, context.waker()) {
            Some(ring) => Poll::Ready(ring),
            None => Poll::Pending,
        })
        .await
    }

    fn set(&mut self, at: Moment) {
        let mut agenda = self.shared.agenda();
        agenda.set_alarm(self.slot, at);
        self.shared.rouse_for(agenda, at);
    }

    fn stop_listening(&mut self) {
        if let Some((name, id)) = self.listens.take() {
            self.shared.agenda().remove_waiter(&name, id);
        }
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.stop_listening();
        self.shared.agenda().remove_alarm(self.slot);
    }
}
