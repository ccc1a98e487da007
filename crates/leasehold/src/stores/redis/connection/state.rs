//! What a connection owes to whom, and what waits to be written. No I/O here.

use std::{collections::VecDeque, task::Waker};

use slab::Slab;

use super::{fault::Fault, link::Limits};
use crate::{
    Error,
    clock::Moment,
    stores::redis::resp::{Reply, Request},
};

/// What a buffer may keep of its size.
const KEPT: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct State {
    /// What goes out next, and the buffer that it changes places with.
    out: Vec<u8>,
    idle_buffer: Vec<u8>,
    /// Bytes that were ever appended, and those that the socket may have taken.
    appended: u64,
    taken: u64,
    pub(super) pen: Pen,
    pub(super) corks: u32,
    gathering: Option<Gathering>,
    slots: Slab<Slot>,
    /// The slots of the requests that were not answered yet, oldest first.
    owed: VecDeque<usize>,
    pub(super) broken: Option<Fault>,
    pub(super) driver: Option<Waker>,
    /// When the watch looks next.
    watched: Moment,
    /// Calls that were ever made, and those that the watch knew of when it looked last.
    calls: u64,
    calls_watched: u64,
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pen {
    Free,
    /// A task is writing.
    Taken,
    /// The socket takes no more for now; the driver goes on when it does.
    Blocked,
}

/// So many tasks were woken at once, and so many have asked since.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    woken: usize,
    came: usize,
    seen: usize,
}

#[derive(Debug)]
struct Slot {
    /// Where its request begins in the stream of what we send.
    begins: u64,
    sent: Moment,
    due: Moment,
    /// A reply is still to come.
    owed: bool,
    subscribes: bool,
    caller: Caller,
}

#[derive(Debug)]
enum Caller {
    Waits(Option<Waker>),
    HasAnswer(Result<Reply, Error>),
    /// Dropped, or told that it took too long.
    Left,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            out: Vec::new(),
            idle_buffer: Vec::new(),
            appended: 0,
            taken: 0,
            pen: Pen::Free,
            corks: 0,
            gathering: None,
            slots: Slab::new(),
            owed: VecDeque::new(),
            broken: None,
            driver: None,
            watched: Moment::NEVER,
            calls: 0,
            calls_watched: 0,
        }
    }

    /// Appends a request, and keeps a slot for its reply.
    pub(super) fn append(&mut self, request: &impl Request, sent: Moment, due: Moment, subscribes: bool) -> usize {
        let (begins, before) = (self.appended, self.out.len());
        request.encode(&mut self.out);
        self.appended += (self.out.len() - before) as u64;
        self.calls += 1;
        let slot = self.slots.insert(Slot { begins, sent, due, owed: true, subscribes, caller: Caller::Waits(None) });
        self.owed.push_back(slot);
        slot
    }

    /// Whether the watch has to be told that something is due earlier than it believes.
    pub(super) fn is_watched_too_late(&mut self, due: Moment) -> bool {
        let earlier = due < self.watched;
        self.watched = self.watched.min(due);
        earlier
    }

    /// Bytes that wait to be written.
    pub(super) fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Whether whoever appended should write.
    pub(super) fn may_write_now(&mut self) -> bool {
        if let Some(gathering) = &mut self.gathering {
            gathering.came += 1;
            if gathering.came < gathering.woken {
                return false;
            }
            self.gathering = None;
        }
        self.pen == Pen::Free && self.corks == 0
    }

    pub(super) fn is_corked(&self) -> bool {
        self.corks > 0 || self.gathering.is_some()
    }

    /// Several tasks were woken: waits for what they have to ask.
    pub(super) fn gather(&mut self, woken: usize) {
        self.gathering = Some(Gathering { woken, came: 0, seen: 0 });
    }

    /// Whether to wait for more. No longer, once a turn of all tasks has brought nothing new.
    pub(super) fn gathers_on(&mut self) -> bool {
        match &mut self.gathering {
            Some(gathering) if gathering.came > gathering.seen => {
                gathering.seen = gathering.came;
                true
            }
            _ => {
                self.gathering = None;
                false
            }
        }
    }

    /// Whether there is something to write, and nobody who does.
    pub(super) fn needs_writer(&self) -> bool {
        self.pen == Pen::Free && !self.out.is_empty() && !self.is_corked()
    }

    /// Takes the pen, and what there is to write. Until we know better, all of it may have left us.
    pub(super) fn take_out(&mut self) -> Vec<u8> {
        self.pen = Pen::Taken;
        let idle = std::mem::take(&mut self.idle_buffer);
        let buffer = std::mem::replace(&mut self.out, idle);
        self.taken += buffer.len() as u64;
        buffer
    }

    /// Gives the pen back, and what the socket did not take beyond the first `length` bytes.
    pub(super) fn put_back(&mut self, mut buffer: Vec<u8>, length: usize, pen: Pen) {
        self.pen = pen;
        self.taken -= (buffer.len() - length) as u64;
        if length == buffer.len() {
            buffer.clear();
            buffer.shrink_to(KEPT);
            self.idle_buffer = buffer;
        } else {
            buffer.drain(..length);
            buffer.append(&mut self.out);
            self.idle_buffer = std::mem::replace(&mut self.out, buffer);
        }
    }

    pub(super) fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    /// Puts a reply where it belongs. False if nobody is owed one.
    pub(super) fn deliver(&mut self, reply: Reply, wakers: &mut Vec<Waker>) -> bool {
        let Some(slot) = self.owed.pop_front() else { return false };
        let entry = &mut self.slots[slot];
        entry.owed = false;
        match &mut entry.caller {
            Caller::Waits(waker) => {
                wakers.extend(waker.take());
                entry.caller = Caller::HasAnswer(Ok(reply));
            }
            // Told that it took too long, but has not heard yet: better late than never.
            Caller::HasAnswer(_) => entry.caller = Caller::HasAnswer(Ok(reply)),
            Caller::Left => drop(self.slots.remove(slot)),
        }
        true
    }

    /// Whether the next thing owed is the confirmation of a subscription, which comes as a message.
    pub(super) fn owes_subscription(&self) -> bool {
        self.owed.front().is_some_and(|slot| self.slots[*slot].subscribes)
    }

    /// The answer, if it is there; if not, `waker` is told when it is.
    pub(super) fn answer(&mut self, slot: usize, waker: &Waker) -> Option<Result<Reply, Error>> {
        if let Caller::Waits(registered) = &mut self.slots[slot].caller {
            if !registered.as_ref().is_some_and(|registered| registered.will_wake(waker)) {
                *registered = Some(waker.clone());
            }
            return None;
        }
        self.leave(slot)
    }

    /// Gives the slot up, with what came. If its reply is still owed it stays in the line, for nobody.
    pub(super) fn leave(&mut self, slot: usize) -> Option<Result<Reply, Error>> {
        let entry = &mut self.slots[slot];
        let caller = std::mem::replace(&mut entry.caller, Caller::Left);
        if !entry.owed {
            self.slots.remove(slot);
        }
        match caller {
            Caller::HasAnswer(answer) => Some(answer),
            Caller::Waits(_) | Caller::Left => None,
        }
    }

    /// Since when the oldest request is unanswered.
    pub(super) fn oldest(&self) -> Option<Moment> {
        self.owed.front().map(|slot| self.slots[*slot].sent)
    }

    /// Answers what is overdue with an error, and says when to look again.
    pub(super) fn sweep(&mut self, now: Moment, limits: &Limits, wakers: &mut Vec<Waker>) -> Moment {
        let mut next = self.oldest().map_or(Moment::NEVER, |sent| sent + limits.silence);
        for slot in &self.owed {
            let slot = &mut self.slots[*slot];
            let Caller::Waits(waker) = &mut slot.caller else { continue };
            if slot.due <= now {
                wakers.extend(waker.take());
                slot.caller = Caller::HasAnswer(Err(Fault::too_late(now.since(slot.sent))));
            } else {
                next = next.min(slot.due);
            }
        }
        // While there is traffic it pays to look once in a while, instead of being roused for each call.
        if next == Moment::NEVER && self.calls_watched != self.calls {
            next = now + limits.answer;
        }
        self.calls_watched = self.calls;
        self.watched = next;
        next
    }

    /// Answers everyone who waits with the fault. Nothing is sent or delivered from here on.
    pub(super) fn end(&mut self, fault: Fault) -> Vec<Waker> {
        let mut wakers = Vec::from_iter(self.driver.take());
        for slot in self.owed.drain(..) {
            let entry = &mut self.slots[slot];
            entry.owed = false;
            match &mut entry.caller {
                Caller::Waits(waker) => {
                    wakers.extend(waker.take());
                    let unsent = entry.begins >= self.taken;
                    entry.caller = Caller::HasAnswer(Err(if unsent { fault.error() } else { fault.unanswered() }));
                }
                Caller::HasAnswer(_) => {}
                Caller::Left => drop(self.slots.remove(slot)),
            }
        }
        self.out = Vec::new();
        self.broken = Some(fault);
        wakers
    }

    #[cfg(test)]
    pub(super) fn slots_in_use(&self) -> usize {
        self.slots.len()
    }
}
