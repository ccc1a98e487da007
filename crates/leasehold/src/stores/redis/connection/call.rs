//! A request that was sent.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::link::Link;
use crate::{Error, stores::redis::resp::Reply};

/// Gives the reply to a request, or what came instead.
///
/// # Cancel safety
///
/// Dropped, its reply is read and thrown away when it comes. The request may be carried out all the same.
#[derive(Debug)]
#[must_use = "the reply is thrown away"]
pub(crate) struct Call(CallState);

#[derive(Debug)]
enum CallState {
    Sent(Arc<Link>, usize),
    Failed(Error),
    Done,
}

impl Call {
    pub(super) fn sent(link: Arc<Link>, slot: usize) -> Self {
        Self(CallState::Sent(link, slot))
    }

    pub(super) fn failed(error: Error) -> Self {
        Self(CallState::Failed(error))
    }
}

impl Future for Call {
    type Output = Result<Reply, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let CallState::Sent(link, slot) = &self.0 {
            let Some(answer) = link.state().answer(*slot, context.waker()) else { return Poll::Pending };
            self.0 = CallState::Done;
            return Poll::Ready(answer);
        }
        match std::mem::replace(&mut self.0, CallState::Done) {
            CallState::Failed(error) => Poll::Ready(Err(error)),
            _ => panic!("polled after it was done"),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let CallState::Sent(link, slot) = &self.0 {
            link.state().leave(*slot);
        }
    }
}
