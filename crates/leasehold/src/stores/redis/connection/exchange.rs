//! A connection before it is shared: one asks, one waits.

use std::{future::poll_fn, io};

use super::{
    fault::{Fault, refusal},
    tls, wire,
    wire::{Reader, Writer},
};
use crate::stores::redis::resp::{Frame, Inbox, Malformed, Reply, Request};

/// Both halves, and what has come.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    pub(super) inbox: Inbox,
    heard: bool,
}

impl Exchange {
    pub(super) fn new((reader, writer): (wire::Reader, wire::Writer)) -> Self {
        Self { reader, writer, inbox: Inbox::default(), heard: false }
    }

    /// Sends requests, all at once.
    pub(super) async fn send(&self, requests: &[u8]) -> Result<(), Fault> {
        self.writer.write_all(requests).await.map_err(|error| io_fault(&error))
    }

    /// What comes next.
    pub(super) async fn next(&mut self) -> Result<Frame, Fault> {
        loop {
            if let Some(frame) = self.inbox.next().map_err(|error| not_redis(error, self.heard))? {
                self.heard = true;
                return Ok(frame);
            }
            let Self { reader, inbox, .. } = self;
            let length = poll_fn(|context| reader.poll_read(context, inbox.room())).await;
            let length = match length {
                Err(error) if !self.heard && error.kind() == io::ErrorKind::ConnectionReset => 0,
                length => length.map_err(|error| io_fault(&error))?,
            };
            match length {
                0 if self.heard => return Err(Fault::closed()),
                0 if self.inbox.is_empty() => return Err(Fault::closed_at_once()),
                // The beginning of something, cut off.
                0 => return Err(not_redis(Malformed::End, false)),
                length => self.inbox.filled(length),
            }
        }
    }

    /// The next reply; messages are not expected here.
    pub(super) async fn reply(&mut self) -> Result<Reply, Fault> {
        loop {
            if let Frame::Reply(reply) = self.next().await? {
                return Ok(reply);
            }
        }
    }

    /// The next reply, which must be no refusal.
    pub(super) async fn accepted(&mut self) -> Result<Reply, Fault> {
        match self.reply().await? {
            Reply::Error(text) => Err(refusal(&text)),
            reply => Ok(reply),
        }
    }

    /// One request and its reply.
    pub(super) async fn ask(&mut self, request: &impl Request) -> Result<Reply, Fault> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.send(&bytes).await?;
        self.reply().await
    }
}

/// What the other side sent is no reply. If it never spoke the protocol, it is another kind of server.
pub(super) fn not_redis(error: Malformed, heard: bool) -> Fault {
    if heard {
        return Fault::transient(
            format!("the server sent {error}"),
            "something between us and the server spoils its replies",
        );
    }
    let hint = match error {
        // The first byte of a TLS alert, and of a TLS record.
        Malformed::Type(0x15 | 0x16) => "it speaks TLS: write rediss://",
        _ => "look at the host and the port",
    };
    Fault::refused(format!("this is no Redis server: it sent {error}"), hint)
}

pub(super) fn io_fault(error: &io::Error) -> Fault {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(error) => tls::fault(error),
        None if error.kind() == io::ErrorKind::UnexpectedEof => Fault::closed_at_once(),
        None => Fault::io(error),
    }
}
