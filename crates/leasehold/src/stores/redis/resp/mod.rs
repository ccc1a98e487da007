//! RESP3, as much of it as a client needs.
//!
//! * `encode.rs`: requests, straight into the buffer that is written.
//! * `scan.rs`: where a reply ends, found without looking at any byte twice.
//! * `reply.rs`: what it says.
//! * `inbox.rs`: the bytes that have come, cut into replies.

mod encode;
mod inbox;
mod reply;
mod scan;
#[cfg(test)]
mod tests;

pub(super) use encode::{Arg, Eval, Request, Script};
pub(super) use inbox::Inbox;
pub(super) use reply::{Frame, Reply};

/// Not RESP3, or beyond what we accept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// No type begins with this byte.
    Type(u8),
    /// A length or a number that is none.
    Number,
    /// What should end here does not.
    End,
    /// A push inside a reply, an empty push.
    Push,
    /// Nested too deeply.
    Deep,
    /// Larger than any reply that we ask for.
    Large,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Type(byte) => write!(f, "a reply that begins with {:?}", char::from(*byte)),
            Self::Number => f.write_str("a number that is none"),
            Self::End => f.write_str("a value that is longer than announced"),
            Self::Push => f.write_str("a message in the wrong place"),
            Self::Deep => f.write_str("a reply that is nested too deeply"),
            Self::Large => f.write_str("a reply that is too large"),
        }
    }
}
