//! The rules of the engine, as scripts that the server runs.
//!
//! `rules.lua` comes before each of the others. They are held to [`engine::apply`](crate::engine::apply) by the tests
//! here: whatever is asked of both, both answer the same and tell the same clients.
//!
//! * `arguments.rs`: from a command to what its script is given.
//! * `replies.rs`: from what a script answers to the engine's reply, and what a message says.

mod arguments;
mod replies;
#[cfg(test)]
mod tests;

use crate::engine::Command;

macro_rules! texts {
    ($($name:ident: $file:literal),* $(,)?) => {
        /// What can be run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Kind { $($name),* }

        /// Each with its file and its text.
        pub(super) const TEXTS: &[(Kind, &str, &str)] =
            &[$((Kind::$name, $file, concat!(include_str!("rules.lua"), include_str!($file)))),*];
    };
}

texts! {
    Claim: "claim.lua",
    Renew: "renew.lua",
    Check: "check.lua",
    Release: "release.lua",
    Leave: "leave.lua",
    HandOver: "hand_over.lua",
    Break: "break.lua",
    Silence: "silence.lua",
    Inspect: "inspect.lua",
}

impl From<&Command> for Kind {
    fn from(command: &Command) -> Self {
        match command {
            Command::Claim(_) => Self::Claim,
            Command::Renew(_) => Self::Renew,
            Command::Check(_) => Self::Check,
            Command::Release(_) => Self::Release,
            Command::Leave(_) => Self::Leave,
            Command::HandOver(_) => Self::HandOver,
            Command::Break(_) => Self::Break,
            Command::Silence(_) => Self::Silence,
        }
    }
}
