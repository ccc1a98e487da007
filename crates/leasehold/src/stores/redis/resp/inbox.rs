//! The bytes that have come, cut into replies.

use super::{Frame, Malformed, reply::decode, scan::Scanner};

/// Larger than what comes in one go as a rule: a read that fills the buffer has to be followed by another.
const ROOM: usize = 32 << 10;
/// What is kept after a large reply.
const KEPT: usize = 256 << 10;

/// What was read and not yet understood.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    scanner: Scanner,
}

impl Inbox {
    /// Where to read into.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > KEPT {
                self.buffer.truncate(ROOM);
                self.buffer.shrink_to_fit();
            }
        }
        if self.buffer.len() - self.end < ROOM / 2 {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            // Doubled, so that a large reply is moved a few times and not for each piece of it.
            if self.buffer.len() - self.end < ROOM / 2 {
                let larger = (self.buffer.len() * 2).max(ROOM);
                self.buffer.resize(larger, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// So much was read into the [`room`](Self::room).
    pub(crate) fn filled(&mut self, length: usize) {
        self.end += length;
    }

    /// The next one that is whole. After an error there is no going on.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Malformed> {
        let unread = &self.buffer[self.start..self.end];
        let Some(length) = self.scanner.end(unread)? else { return Ok(None) };
        self.start += length;
        decode(&unread[..length]).map(Some)
    }

    /// Whether nothing has come, or all of it was understood.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }
}
