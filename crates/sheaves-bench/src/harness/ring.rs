//! A bounded queue between two threads, for pointers.
//!
//! One producer, one consumer, no locked instruction. Each side keeps its own position in a local
//! variable and a copy of the other's, looks at the shared word only when the copy says that the
//! queue is full or empty, and publishes its own position every [`STEP`] objects, or when it is
//! about to wait. So the cache lines change hands rarely, whichever side is the faster one: a queue
//! that publishes each object costs 3 ns while it is half full and 30 ns while it is nearly
//! empty, and that would depend on the contender.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::Backoff;
use sheaves_history::cpu::Padded;

/// Objects that are on the way at most.
pub(crate) const CAPACITY: usize = 1024;
const MASK: usize = CAPACITY - 1;
/// A side's position is published at multiples of this.
const STEP: usize = 64;
const _: () = assert!(CAPACITY.is_power_of_two() && CAPACITY.is_multiple_of(STEP));

/// The queue.
///
/// | word | written by | meaning |
/// |---|---|---|
/// | `sent` | producer | entries below it are filled |
/// | `taken` | consumer | entries below it may be filled again |
///
/// Both only grow; an entry's place is the number's low bits.
pub(crate) struct Ring {
    sent: Padded<AtomicUsize>,
    taken: Padded<AtomicUsize>,
    entries: Box<[AtomicPtr<u8>]>,
}

impl Ring {
    pub(crate) fn new() -> Ring {
        let entries = (0..CAPACITY).map(|_| AtomicPtr::default()).collect();
        Ring { sent: Padded::default(), taken: Padded::default(), entries }
    }

    /// The sending end. There must be only one at a time: a second would overwrite its entries,
    /// which loses objects but breaks no memory.
    pub(crate) fn producer(&self) -> Producer<'_> {
        // Acquire, twice: an earlier end of this ring may have lived on another thread; partners
        // are the stores of the two `publish`.
        let sent = self.sent.0.load(Ordering::Acquire);
        Producer { ring: self, sent, taken: self.taken.0.load(Ordering::Acquire) }
    }

    /// The receiving end. There must be only one at a time.
    pub(crate) fn consumer(&self) -> Consumer<'_> {
        // Acquire, twice: as in `producer`.
        let taken = self.taken.0.load(Ordering::Acquire);
        Consumer { ring: self, taken, sent: self.sent.0.load(Ordering::Acquire) }
    }
}

pub(crate) struct Producer<'a> {
    ring: &'a Ring,
    sent: usize,
    /// The last known value of the other side's word.
    taken: usize,
}

impl Producer<'_> {
    /// Sends a pointer; waits while the queue is full.
    #[inline]
    pub(crate) fn push(&mut self, object: *mut u8) {
        let mut backoff = Backoff::new();
        while !self.try_push(object) {
            backoff.pause();
        }
    }

    #[inline]
    pub(crate) fn try_push(&mut self, object: *mut u8) -> bool {
        if self.sent - self.taken == CAPACITY && !self.refresh() {
            return false;
        }
        // Relaxed: published by the store below.
        self.ring.entries[self.sent & MASK].store(object, Ordering::Relaxed);
        self.sent += 1;
        if self.sent.is_multiple_of(STEP) {
            self.publish();
        }
        true
    }

    /// Lets the other side see everything that was sent.
    #[inline]
    pub(crate) fn publish(&self) {
        // Release: partner is the acquire load in `Consumer::refresh`.
        self.ring.sent.0.store(self.sent, Ordering::Release);
    }

    /// Looks whether there is room.
    #[cold]
    fn refresh(&mut self) -> bool {
        self.publish();
        // Acquire: partner is the release store in `Consumer::publish`; the entry was read before
        // it is written again.
        self.taken = self.ring.taken.0.load(Ordering::Acquire);
        self.sent - self.taken < CAPACITY
    }
}

impl Drop for Producer<'_> {
    fn drop(&mut self) {
        self.publish();
    }
}

impl Drop for Consumer<'_> {
    fn drop(&mut self) {
        self.publish();
    }
}

pub(crate) struct Consumer<'a> {
    ring: &'a Ring,
    taken: usize,
    /// The last known value of the other side's word.
    sent: usize,
}

impl Consumer<'_> {
    /// Receives a pointer; waits while the queue is empty.
    #[inline]
    pub(crate) fn pop(&mut self) -> *mut u8 {
        let mut backoff = Backoff::new();
        loop {
            if let Some(object) = self.try_pop() {
                return object;
            }
            backoff.pause();
        }
    }

    #[inline]
    pub(crate) fn try_pop(&mut self) -> Option<*mut u8> {
        if self.taken == self.sent && !self.refresh() {
            return None;
        }
        // Relaxed: ordered by the load in `refresh`.
        let object = self.ring.entries[self.taken & MASK].load(Ordering::Relaxed);
        self.taken += 1;
        if self.taken.is_multiple_of(STEP) {
            self.publish();
        }
        Some(object)
    }

    /// Lets the other side fill what was taken.
    #[inline]
    fn publish(&self) {
        // Release: partner is the acquire load in `Producer::refresh`.
        self.ring.taken.0.store(self.taken, Ordering::Release);
    }

    /// Looks whether more has come.
    #[cold]
    fn refresh(&mut self) -> bool {
        self.publish();
        // Acquire: partner is the release store in `Producer::publish`.
        self.sent = self.ring.sent.0.load(Ordering::Acquire);
        self.taken != self.sent
    }
}

#[cfg(test)]
#[path = "../../tests/unit/harness_ring.rs"]
mod tests;
