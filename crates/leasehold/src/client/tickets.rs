//! What is done with a lease in portable form.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use super::{Client, Lease, lease::Party};
use crate::{
    clock::Moment,
    engine::{Check, HoldReply, Release, ReleaseReply, Renew},
    error::Error,
    keeper::{Held, Terms, deadline, falls_short},
    ticket::Ticket,
};

/// How long a second release with the same ticket is told that it was released.
const SECOND_RELEASE: Duration = Duration::from_mins(1);

/// What is left of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Validity {
    /// It may be relied on for so long, unless it is renewed.
    For(Duration),
    /// It never expires.
    Forever,
}

impl Client {
    /// Joins a lease as a second owner: renews it once, and keeps it alive from then on. Dropping the result stops
    /// that and never releases; [`Lease::release`] does, if the ticket says so.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use leasehold::Rights;
    ///
    /// let client = leasehold::open("memory:").await?;
    /// let orchestrator = client.lock("batch/7")?.acquire().await?;
    /// let ticket = orchestrator.share(Rights::RENEW);
    ///
    /// let remote = client.accept(&ticket).await?;
    /// assert_eq!(remote.fence(), orchestrator.fence());
    /// # drop(remote);
    /// # orchestrator.release().await?;
    /// # Ok::<(), leasehold::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn accept(&self, ticket: &Ticket) -> Result<Lease, Error> {
        self.join(ticket, Party::Sharer { may_release: ticket.rights.release }).await
    }

    /// Takes a lease over as its owner: as [`accept`](Self::accept), and dropping the result releases it. For the
    /// receiver of [`Lease::hand_over`].
    pub async fn adopt(&self, ticket: &Ticket) -> Result<Lease, Error> {
        may("release", ticket.rights.release)?;
        self.join(ticket, Party::Owner).await
    }

    async fn join(&self, ticket: &Ticket, party: Party) -> Result<Lease, Error> {
        let core = &self.core;
        // An orchestrator that attaches overtakes the one before it, and not the remote that both look after.
        let tenure = ticket.tenure.filter(|_| party == Party::Owner);
        let sent = core.clock.now();
        let left = self.renew_once(ticket, tenure).await?;
        let ttl = ticket.ttl.into();
        let terms = Terms {
            name: ticket.name.clone(),
            id: ticket.id,
            fence: ticket.fence.unwrap_or_default(),
            ttl,
            tenure,
            not_after_ms: ticket.not_after_ms.map(|ms| NonZeroU64::new(ms).unwrap_or(NonZeroU64::MIN)),
            renewed: true,
            offered: false,
            unanswered: false,
            attachable: true,
            granted: core.clock.now(),
        };
        Ok(Lease::joined(Arc::clone(core), Held::new(terms, deadline(sent, left, ttl), falls_short(left, ttl)), party))
    }

    /// Renews a ticket's lease, and says how long it may be relied on from now.
    pub async fn renew(&self, ticket: &Ticket) -> Result<Validity, Error> {
        let sent = self.core.clock.now();
        let left = self.renew_once(ticket, ticket.tenure).await?;
        Ok(self.validity(deadline(sent, left, ticket.ttl.into())))
    }

    /// How long a ticket's lease may be relied on from now; [`Error::Lost`] if it is no longer held.
    pub async fn check(&self, ticket: &Ticket) -> Result<Validity, Error> {
        self.belongs(ticket)?;
        let sent = self.core.clock.now();
        let check = Check { id: ticket.id, fence: ticket.fence.unwrap_or_default() };
        let left = held(ticket, self.core.ask(&ticket.name, check).await?)?;
        Ok(self.validity(deadline(sent, left, ticket.ttl.into())))
    }

    /// Releases a ticket's lease. `true` if this ended it, or an earlier release with the same ticket did within the
    /// last minute; `false` if it was no longer held.
    pub async fn release(&self, ticket: &Ticket) -> Result<bool, Error> {
        self.belongs(ticket)?;
        may("release", ticket.rights.release)?;
        let release =
            Release { id: ticket.id, tenure: ticket.tenure, linger: None, remember: Some(SECOND_RELEASE.into()) };
        let reply = self.core.ask(&ticket.name, release).await?;
        Ok(matches!(reply, ReleaseReply::Released | ReleaseReply::Already))
    }

    async fn renew_once(&self, ticket: &Ticket, tenure: Option<u32>) -> Result<Option<Duration>, Error> {
        self.belongs(ticket)?;
        may("renew", ticket.rights.renew)?;
        let renew =
            Renew { id: ticket.id, fence: ticket.fence.unwrap_or_default(), tenure, not_after_ms: ticket.not_after_ms };
        held(ticket, self.core.ask(&ticket.name, renew).await?)
    }

    fn validity(&self, deadline: Moment) -> Validity {
        match deadline {
            Moment::NEVER => Validity::Forever,
            deadline => Validity::For(deadline.since(self.core.clock.now())),
        }
    }

    fn belongs(&self, ticket: &Ticket) -> Result<(), Error> {
        let ours = self.core.store.fingerprint();
        if ticket.store == ours {
            return Ok(());
        }
        Err(Error::invalid(
            format!("this ticket is of the store {}, and this is {ours}", ticket.store),
            "name the ticket's store with --store or LEASEHOLD_STORE",
        ))
    }
}

fn held(ticket: &Ticket, reply: HoldReply) -> Result<Option<Duration>, Error> {
    match reply {
        HoldReply::Held { left } => Ok(left),
        HoldReply::Lost(loss) => Err(Error::Lost { name: ticket.name.clone(), loss }),
    }
}

fn may(what: &str, right: bool) -> Result<(), Error> {
    if right {
        return Ok(());
    }
    Err(Error::invalid(
        format!("this ticket may not {what} the lease"),
        "ask whoever made it for one with that right, or let the owner do it",
    ))
}
