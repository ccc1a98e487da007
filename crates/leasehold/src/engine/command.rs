//! What can be asked of a name, and what it answers.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::record::{Span, Who};
use crate::{
    error::{Error, Loss},
    id::{AttemptId, ClientId},
    view::HolderView,
};

/// One atomic step on one name. Each may arrive twice or late without harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take the name, or a place in the queue.
    Claim(Claim),
    /// Start the holder's term anew.
    Renew(Renew),
    /// Ask whether an attempt id holds. Changes nothing.
    Check(Check),
    /// Give the name back.
    Release(Release),
    /// Give up waiting, and whatever was granted meanwhile.
    Leave(Leave),
    /// Give the lease to another attempt id, with a new fence.
    HandOver(HandOver),
    /// End a holder's right to renew, or its hold.
    Break(Break),
    /// Nobody received what was sent to a client.
    Silence(Silence),
}

/// What a [`Command`] answers, one variant for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Command::Claim`].
    Claim(ClaimReply),
    /// To [`Command::Renew`] and [`Command::Check`].
    Hold(HoldReply),
    /// To [`Command::Release`].
    Release(ReleaseReply),
    /// To [`Command::Leave`].
    Leave(LeaveReply),
    /// To [`Command::HandOver`].
    HandOver(HandOverReply),
    /// To [`Command::Break`].
    Break(BreakReply),
    /// To [`Command::Silence`].
    Silence,
}

/// Take the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// New for each acquisition, the same when it is asked again.
    pub id: AttemptId,
    /// How many permits.
    pub permits: u32,
    /// Of how many.
    pub capacity: u32,
    /// How long the grant lasts.
    pub ttl: Span,
    /// It ends then, however often it is renewed.
    pub max_hold: Option<Span>,
    /// Where we can be told.
    pub client: Option<ClientId>,
    /// The fence of an offer that we received news of. Whoever sent that knows that it arrived, so that nobody will
    /// take the offer back as unheard, and the reply need not be noted in the record.
    pub told: Option<u64>,
    /// Take a place in the queue if it is not free.
    pub queue: Option<Queueing>,
    /// Attach to the lease that is held for this work, if there is one.
    pub work: Option<Arc<str>>,
    /// For people.
    pub who: Arc<Who>,
}

/// How to stand in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queueing {
    /// How long the place is kept without hearing from us.
    pub waiter_ttl: Span,
    /// How long an offer waits for us.
    pub window: Span,
}

/// What a claim comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimReply {
    /// It is ours.
    Granted(Grant),
    /// We have a place in the queue.
    Queued(Queued),
    /// Another has it, and we did not want to queue.
    Held(HolderView),
    /// This attempt ended before.
    Gone,
    /// Others share the name by another number of permits.
    Mismatch {
        /// Their capacity.
        capacity: u32,
    },
}

/// A grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The holder's attempt id: the claim's own, unless it attached.
    pub id: AttemptId,
    /// The fence.
    pub fence: u64,
    /// See [`Holder::tenure`](super::Holder::tenure).
    pub tenure: u32,
    /// What each renewal gives: not what the claim asked for, if it attached.
    pub ttl: Span,
    /// What is left; `None` if it never expires.
    pub left: Option<Duration>,
    /// Only the claim window was given: the first renewal makes it the whole ttl.
    pub offered: bool,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// From 1.
    pub position: u32,
    /// Whom we wait for.
    pub holder: Option<HolderView>,
    /// When to claim again if nothing is heard: by then it may be our turn. `None`: at the next heartbeat.
    pub wake_in: Option<Duration>,
}

/// Start the term anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew {
    /// The holder's.
    pub id: AttemptId,
    /// Its fence, compared too.
    pub fence: u64,
    /// The orchestrator's tenure; `None` for a sharer.
    pub tenure: Option<u32>,
    /// By the wall clock in milliseconds since 1970: no renewal after it, and none that reaches beyond it.
    pub not_after_ms: Option<u64>,
}

/// Ask whether it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// The holder's.
    pub id: AttemptId,
    /// Its fence.
    pub fence: u64,
}

/// Whether it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReply {
    /// Held, with so much left; `None` if it never expires.
    Held {
        /// What is left.
        left: Option<Duration>,
    },
    /// Not held by this attempt id.
    Lost(Loss),
}

/// Give it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The holder's.
    pub id: AttemptId,
    /// The orchestrator's tenure: one that was overtaken releases nothing. `None` for a sharer.
    pub tenure: Option<u32>,
    /// Keep it taken for so long still.
    pub linger: Option<Span>,
    /// Remember the attempt id for so long: a late request with it is refused, a second release is told so.
    pub remember: Option<Span>,
}

/// What a release comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// Released now.
    Released,
    /// Released before.
    Already,
    /// Not held by this attempt id.
    NotHeld(Loss),
}

/// Give up waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// The waiter's.
    pub id: AttemptId,
    /// See [`Release::remember`].
    pub remember: Option<Span>,
}

/// Where the one that left had stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveReply {
    /// It was waiting.
    Waiting,
    /// It had been granted the name: that was given back.
    Holding,
    /// Neither.
    Absent,
}

/// Give it to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The holder's.
    pub id: AttemptId,
    /// Its fence.
    pub fence: u64,
    /// The orchestrator's tenure: one that was overtaken has nothing to give. `None` for a sharer.
    pub tenure: Option<u32>,
    /// The receiver's: a new one.
    pub to: AttemptId,
}

/// What a hand-over comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOverReply {
    /// Done: the receiver holds.
    Done {
        /// The receiver's fence.
        fence: u64,
        /// What is left; `None` if it never expires.
        left: Option<Duration>,
    },
    /// Not held by this attempt id.
    Lost(Loss),
}

/// End a holder's right to renew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// The holder that is meant: a newer one is untouched.
    pub fence: u64,
    /// Free the name at once, though the holder may still be at work.
    pub now: bool,
}

/// What a break comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakReply {
    /// That holder may not renew any more, and the name is free when this is over.
    Broken {
        /// Zero if it is free now.
        free_in: Duration,
    },
    /// A newer holder has it.
    Newer {
        /// Its fence.
        fence: u64,
    },
    /// Nobody with that fence, or a newer one, holds it.
    NotHeld,
}

/// Pass over a client that nobody receives for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Whose waiters are passed over until it is heard again.
    pub client: ClientId,
    /// The fence of the offer that nobody received: that goes to the next at once. Another offer to the same client may
    /// have been received, so it keeps its claim window.
    pub offer: Option<u64>,
}

/// What to tell whom, once the step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Where.
    pub client: ClientId,
    /// Whom there.
    pub id: AttemptId,
    /// What.
    pub news: News,
}

/// A hint; the record is what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum News {
    /// The name was granted to you: claim again to see it.
    Offer {
        /// The fence of the grant.
        fence: u64,
    },
    /// You are next, and it may be your turn after so many milliseconds.
    Next {
        /// Milliseconds.
        in_ms: u64,
    },
    /// Your lease was broken.
    Broken,
}

impl News {
    /// The fence, if it is an offer.
    pub fn offer(self) -> Option<u64> {
        match self {
            Self::Offer { fence } => Some(fence),
            Self::Next { .. } | Self::Broken => None,
        }
    }
}

macro_rules! replies {
    ($($command:ident => $variant:ident($reply:ty)),* $(,)?) => {$(
        impl From<$command> for Command {
            fn from(command: $command) -> Self {
                Self::$command(command)
            }
        }

        impl Request for $command {
            type Reply = $reply;

            fn reply(reply: Reply) -> Result<$reply, Error> {
                match reply {
                    Reply::$variant(reply) => Ok(reply),
                    other => Err(Error::internal(format!(
                        concat!("a store answered ", stringify!($command), " with {:?}"), other
                    ))),
                }
            }
        }
    )*};
}

/// A command whose reply has a type of its own.
pub trait Request: Into<Command> {
    /// What it answers.
    type Reply;

    /// Picks it out.
    fn reply(reply: Reply) -> Result<Self::Reply, Error>;
}

replies! {
    Claim => Claim(ClaimReply),
    Renew => Hold(HoldReply),
    Check => Hold(HoldReply),
    Release => Release(ReleaseReply),
    Leave => Leave(LeaveReply),
    HandOver => HandOver(HandOverReply),
    Break => Break(BreakReply),
}
