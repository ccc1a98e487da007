//! What is due when: every lease and every alarm of a client, in one ordered set.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    task::Waker,
};

use slab::Slab;

use super::{Errand, Held, Ring};
use crate::{clock::Moment, engine::News, id::AttemptId, name::Name};

/// Leases and alarms stand in slabs; the set orders their slots by time.
#[derive(Debug)]
pub(super) struct Agenda {
    due: BTreeSet<(Moment, Entry)>,
    leases: Slab<KeptLease>,
    alarms: Slab<SetAlarm>,
    /// The alarms of waiters, by their attempt.
    waiters: HashMap<AttemptId, usize>,
    /// The names that this client waits for.
    queues: HashMap<Name, Queue>,
    pub(super) errands: Vec<(Name, Errand, Moment)>,
    /// Those not carried out yet, under way or not.
    pub(super) errands_open: usize,
    /// What the thread sleeps for.
    pub(super) sleeping_until: Moment,
    pub(super) closing: bool,
}

impl Default for Agenda {
    fn default() -> Self {
        Self {
            due: BTreeSet::new(),
            leases: Slab::new(),
            alarms: Slab::new(),
            waiters: HashMap::new(),
            queues: HashMap::new(),
            errands: Vec::new(),
            errands_open: 0,
            // A thread that has not looked yet need not be roused: it will look.
            sleeping_until: Moment::EARLIEST,
            closing: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entry {
    Lease(u32),
    Alarm(u32),
}

impl Entry {
    fn lease(slot: usize) -> Self {
        Self::Lease(u32::try_from(slot).expect("fewer than 2^32 leases"))
    }

    fn alarm(slot: usize) -> Self {
        Self::Alarm(u32::try_from(slot).expect("fewer than 2^32 alarms"))
    }
}

#[derive(Debug)]
struct KeptLease {
    held: Arc<Held>,
    at: Moment,
    /// Renewals without an answer yet.
    unanswered: u32,
}

#[derive(Debug, Default)]
struct SetAlarm {
    at: Option<Moment>,
    rung: Option<Ring>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Queue {
    /// How many of this client wait.
    waiters: u32,
    /// When the store last heard one of them.
    heard: Moment,
}

// Leases.
impl Agenda {
    pub(super) fn add_lease(&mut self, held: Arc<Held>, at: Moment) -> usize {
        let slot = self.leases.insert(KeptLease { held, at, unanswered: 0 });
        self.due.insert((at, Entry::lease(slot)));
        slot
    }

    /// Says whether a renewal is unanswered.
    pub(super) fn remove_lease(&mut self, held: &Arc<Held>) -> bool {
        if !self.is_kept(held) {
            return false;
        }
        let lease = self.leases.remove(held.slot());
        self.due.remove(&(lease.at, Entry::lease(held.slot())));
        lease.unanswered > 0
    }

    pub(super) fn reschedule_lease(&mut self, slot: usize, at: Moment) {
        let lease = &mut self.leases[slot];
        self.due.remove(&(lease.at, Entry::lease(slot)));
        lease.at = at;
        self.due.insert((at, Entry::lease(slot)));
    }

    /// A slot may have gone to another lease since.
    pub(super) fn is_kept(&self, held: &Arc<Held>) -> bool {
        self.leases.get(held.slot()).is_some_and(|lease| Arc::ptr_eq(&lease.held, held))
    }

    pub(super) fn lease(&self, slot: u32) -> &Arc<Held> {
        &self.leases[slot as usize].held
    }

    /// Counts a renewal. Says no if too many have no answer yet.
    pub(super) fn asked(&mut self, slot: u32) -> bool {
        const MOST: u32 = 3;
        let unanswered = &mut self.leases[slot as usize].unanswered;
        let asks = *unanswered < MOST;
        *unanswered += u32::from(asks);
        asks
    }

    pub(super) fn answered(&mut self, slot: usize) {
        self.leases[slot].unanswered -= 1;
    }

    /// Searches all leases: only for what is rare.
    pub(super) fn lease_of(&self, id: AttemptId) -> Option<&Arc<Held>> {
        self.leases.iter().map(|(_, lease)| &lease.held).find(|held| held.id == id)
    }
}

// Alarms.
impl Agenda {
    pub(super) fn add_alarm(&mut self) -> usize {
        self.alarms.insert(SetAlarm::default())
    }

    pub(super) fn remove_alarm(&mut self, slot: usize) {
        let alarm = self.alarms.remove(slot);
        if let Some(at) = alarm.at {
            self.due.remove(&(at, Entry::alarm(slot)));
        }
    }

    pub(super) fn set_alarm(&mut self, slot: usize, at: Moment) {
        if let Some(before) = self.alarms[slot].at.replace(at) {
            self.due.remove(&(before, Entry::alarm(slot)));
        }
        self.due.insert((at, Entry::alarm(slot)));
    }

    /// What rang since the last look; if nothing did, `waker` is woken when it does.
    pub(super) fn take_ring(&mut self, slot: usize, waker: &Waker) -> Option<Ring> {
        let alarm = &mut self.alarms[slot];
        let rung = alarm.rung.take();
        if rung.is_none() {
            alarm.waker = Some(waker.clone());
        }
        rung
    }

    /// Rings, and hands out whom to wake. News is not hidden by the time that comes as well, nor an offer by lesser news.
    pub(super) fn ring(&mut self, slot: usize, ring: Ring) -> Option<Waker> {
        let alarm = &mut self.alarms[slot];
        let is_offer = |ring| matches!(ring, Ring::News(News::Offer { .. }));
        let hides = match alarm.rung {
            None => false,
            Some(before) => ring == Ring::Time || (is_offer(before) && !is_offer(ring)),
        };
        if !hides {
            alarm.rung = Some(ring);
        }
        alarm.waker.take()
    }

    pub(super) fn add_waiter(&mut self, slot: usize, name: &Name, id: AttemptId) {
        self.waiters.insert(id, slot);
        self.queues.entry(name.clone()).or_insert(Queue { waiters: 0, heard: Moment::EARLIEST }).waiters += 1;
    }

    pub(super) fn remove_waiter(&mut self, name: &Name, id: AttemptId) {
        self.waiters.remove(&id);
        if let Some(queue) = self.queues.get_mut(name) {
            queue.waiters -= 1;
            if queue.waiters == 0 {
                self.queues.remove(name);
            }
        }
    }

    pub(super) fn waiter(&self, id: AttemptId) -> Option<usize> {
        self.waiters.get(&id).copied()
    }

    pub(super) fn heard(&mut self, name: &Name, at: Moment) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.heard = queue.heard.max(at);
        }
    }

    pub(super) fn last_heard(&self, name: &Name) -> Option<Moment> {
        self.queues.get(name).map(|queue| queue.heard)
    }
}

// What the thread asks.
impl Agenda {
    /// Everything that was kept, and whoever waits for an alarm: nothing will be done about them any more.
    pub(super) fn give_up(&mut self) -> (Vec<Arc<Held>>, Vec<Waker>) {
        let leases = self.leases.drain().map(|lease| lease.held).collect();
        let wakers = self.alarms.iter_mut().filter_map(|(_, alarm)| {
            alarm.rung = Some(Ring::Time);
            alarm.waker.take()
        });
        let wakers = wakers.collect();
        self.due.clear();
        self.errands.clear();
        self.errands_open = 0;
        (leases, wakers)
    }

    /// The next entry that is due, taken off the list.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Entry> {
        let (at, entry) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, entry));
        if let Entry::Alarm(slot) = entry {
            self.alarms[slot as usize].at = None;
        }
        Some(entry)
    }

    pub(super) fn next_due(&self) -> Moment {
        self.due.first().map_or(Moment::NEVER, |(at, _)| *at)
    }
}
