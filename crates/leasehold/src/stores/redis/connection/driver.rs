//! Reads what comes, and gives it to whom it belongs.

use std::{
    fmt,
    future::poll_fn,
    io,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::{
    Push, PushHandler,
    exchange::{io_fault, not_redis},
    fault::{Fault, ends_connection, refusal},
    link::Link,
    state::{Pen, State},
    wire::Reader,
};
use crate::stores::redis::resp::{Frame, Inbox, Reply};

/// The read side of a [`Link`]. Dropped, also by a runtime that is shut down, it ends the link.
pub(super) struct Driver {
    link: Arc<Link>,
    reader: Reader,
    inbox: Inbox,
    on_push: PushHandler,
    frames: Vec<Frame>,
    wakers: Vec<Waker>,
}

impl Driver {
    pub(super) fn new(link: Arc<Link>, reader: Reader, inbox: Inbox, on_push: PushHandler) -> Self {
        Self { link, reader, inbox, on_push, frames: Vec::new(), wakers: Vec::new() }
    }

    /// Until the connection ends; says why.
    pub(super) async fn run(mut self, early: Vec<Push>) -> Fault {
        for push in early {
            (self.on_push)(push);
        }
        // What came with the last reply of the handshake.
        if let Err(fault) = self.dispatch() {
            return self.end(fault);
        }
        let fault = poll_fn(|context| self.poll(context)).await;
        self.end(fault)
    }

    fn end(&self, fault: Fault) -> Fault {
        self.link.fail(self.link.state(), fault.clone());
        self.link.state().broken.clone().unwrap_or(fault)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Fault> {
        // Once for each turn: those who were woken in this one have not had theirs yet.
        if let Some(fault) = self.see_to_writing(context) {
            return Poll::Ready(fault);
        }
        loop {
            match self.reader.poll_read(context, self.inbox.room()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(io_fault(&error)),
                Poll::Ready(Ok(0)) => return Poll::Ready(Fault::closed()),
                Poll::Ready(Ok(length)) => self.inbox.filled(length),
            }
            if let Err(fault) = self.dispatch() {
                return Poll::Ready(fault);
            }
        }
    }

    /// What no caller does: the rest that the socket did not take, and what gathered.
    fn see_to_writing(&mut self, context: &mut Context<'_>) -> Option<Fault> {
        let mut state = self.link.state();
        if let Some(fault) = &state.broken {
            return Some(fault.clone());
        }
        if !state.driver.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            state.driver = Some(context.waker().clone());
        }
        if state.gathers_on() {
            context.waker().wake_by_ref();
        }
        while state.pen == Pen::Blocked {
            let writer = &self.link.writer;
            match writer.poll_writable(context).map(|ready| ready.and_then(|()| writer.flush())) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) => state.pen = Pen::Free,
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Poll::Ready(Err(error)) => return Some(io_fault(&error)),
            }
        }
        if state.needs_writer() {
            self.link.write(state);
        }
        None
    }

    /// Delivers what has come, and wakes those who waited for it.
    fn dispatch(&mut self) -> Result<(), Fault> {
        let mut malformed = None;
        loop {
            match self.inbox.next() {
                Ok(Some(frame)) => self.frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    malformed = Some(not_redis(error, true));
                    break;
                }
            }
        }
        let Self { link, on_push, frames, wakers, .. } = self;
        let mut ended = None;
        let mut state = link.state();
        for frame in frames.drain(..) {
            match frame {
                Frame::Reply(reply) => ended = ended.or(Self::deliver(&mut state, reply, wakers)),
                Frame::Push(push) if is_confirmation(&push) => {
                    if state.owes_subscription() {
                        state.deliver(Reply::Ok, wakers);
                    }
                }
                Frame::Push(push) => {
                    // In the order in which it came, and free to ask something itself.
                    drop(state);
                    on_push(push);
                    state = link.state();
                }
            }
        }
        if wakers.len() > 1 {
            state.gather(wakers.len());
            wakers.extend(state.driver.clone());
        }
        drop(state);
        wakers.drain(..).for_each(Waker::wake);
        match ended.or(malformed) {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// A reason to end the connection, if the reply is one.
    fn deliver(state: &mut State, reply: Reply, wakers: &mut Vec<Waker>) -> Option<Fault> {
        let ended = match &reply {
            Reply::Error(text) if ends_connection(&reply) => Some(refusal(text)),
            _ => None,
        };
        if state.deliver(reply, wakers) {
            return ended;
        }
        // The parting words of a server that closes the connection.
        ended.or_else(|| {
            Some(Fault::transient("the server sent a reply that was not asked for", "see the server's log"))
        })
    }
}

fn is_confirmation(push: &[Reply]) -> bool {
    push[0].bytes() == Some(b"subscribe")
}

impl Drop for Driver {
    fn drop(&mut self) {
        let fault = Fault::transient("the runtime that the connection lived on was shut down", "try again");
        self.link.fail(self.link.state(), fault);
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("link", &self.link).finish_non_exhaustive()
    }
}
