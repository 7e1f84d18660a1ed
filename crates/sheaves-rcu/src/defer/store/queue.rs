//! Queues of sealed sheaves that wait for their cookies, oldest first.
//!
//! A sheaf is *sealed*: nothing is added to it any more. Its cookie is taken after that, so one
//! check of the cookie answers for all of its entries. Its first entries hold its state, so that
//! sealing needs no memory:
//!
//! | entry | holds |
//! |---|---|
//! | 0 | the link: the address of the next sheaf / [`Sheaf::BYTES`], 0 for none |
//! | 1 | the cookie |
//! | 2 | indexes: the next entry to be reclaimed, the first one, and the end, of 16 bits each |
//!
//! A sheaf that is being reclaimed stays at the front of its queue, and its index is advanced
//! before each entry is processed. So the child of a fork goes on where its parent was, except for
//! the one entry that another thread was processing. At every instruction of a change, `first` and
//! the links say what is in the queue: everything else follows from them in the child of a fork
//! that ran no `prepare` handler.

use core::num::NonZeroUsize;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_percpu::internal::{Cursor, Sheaf};

use crate::grace::cookie::Cookie;

/// Number of entries at the begin of a sealed sheaf that hold its state.
pub const STATE_ENTRIES: usize = 3;
/// Bits of an index in entry 2.
const INDEX_BITS: u32 = 16;

/// The cursor of a sheaf that is not sealed yet. One word, so that a change is one store; 0 for
/// none, so that the pages of large statics stay untouched.
#[derive(Debug)]
pub struct Open(usize);

impl Open {
    /// No sheaf.
    pub const NONE: Open = Open(0);

    /// The cursor; [`Cursor::VACANT`] for none.
    pub fn cursor(&self) -> Cursor {
        // SAFETY: from `set`.
        if self.0 == 0 { Cursor::VACANT } else { unsafe { Cursor::from_bits(self.0) } }
    }

    /// Replaces the cursor.
    pub fn set(&mut self, cursor: Cursor) {
        self.0 = cursor.bits();
    }

    /// Takes the cursor.
    pub fn take(&mut self) -> Cursor {
        let cursor = self.cursor();
        self.0 = 0;
        cursor
    }
}

/// A sealed sheaf, as its address: with none in its place it is one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed(NonZeroUsize);

// What a child of a fork may find half changed is written by single stores.
const _: () = assert!(size_of::<Option<Sealed>>() == size_of::<usize>());

impl Sealed {
    fn of(sheaf: Sheaf) -> Sealed {
        // SAFETY: by the contract of `Sheaf::at` memory is mapped there, and not at address 0.
        Sealed(unsafe { NonZeroUsize::new_unchecked(sheaf.address()) })
    }

    fn sheaf(self) -> Sheaf {
        // SAFETY: the address of a sheaf that was sealed, and stays mapped.
        unsafe { Sheaf::at(self.0.get()) }
    }

    /// The cursor with which it was sealed.
    pub fn cursor(self) -> Cursor {
        self.sheaf().cursor(self.index(2) - 1)
    }

    /// Number of entries that were sealed.
    pub fn objects(self) -> usize {
        self.index(2) - self.index(1)
    }

    /// Takes the next entry.
    ///
    /// # Safety
    /// The sheaf is at the front of its queue, and only the caller takes its entries.
    pub(crate) unsafe fn take(self) -> Option<usize> {
        let entry = self.left().next()?;
        // Relaxed, both: only the caller writes it; others read it as a hint.
        let indexes = self.entry(2).load(Ordering::Relaxed);
        self.entry(2).store(indexes + 1, Ordering::Relaxed);
        Some(entry)
    }

    /// The entries that are not taken yet.
    pub(crate) fn left(self) -> impl Iterator<Item = usize> {
        // Relaxed: written before the sheaf was sealed.
        (self.index(0)..self.index(2)).map(move |index| self.entry(index).load(Ordering::Relaxed))
    }

    fn index(self, which: u32) -> usize {
        // Relaxed: written under the lock of the queue, or by the thread that takes the entries.
        let indexes = self.entry(2).load(Ordering::Relaxed);
        indexes >> (which * INDEX_BITS) & ((1 << INDEX_BITS) - 1)
    }

    /// The cookie of all entries.
    pub fn cookie(self) -> Cookie {
        // Relaxed: constant while the sheaf is in a queue.
        Cookie::from_bits(self.entry(1).load(Ordering::Relaxed) as u64)
    }

    fn next(self) -> Option<Sealed> {
        NonZeroUsize::new(self.sheaf().link() * Sheaf::BYTES).map(Sealed)
    }

    fn set_next(self, next: Option<Sealed>) {
        let number = next.map_or(0, |next| next.0.get() / Sheaf::BYTES);
        // SAFETY: the sheaf belongs to the queue, which the lock protects.
        unsafe { self.sheaf().set_link(number) };
    }

    pub(crate) fn entry(&self, index: usize) -> &AtomicUsize {
        // SAFETY: an entry of a sealed sheaf: mapped while it is in the queue; access is atomic.
        unsafe { &*with_exposed_provenance::<AtomicUsize>(self.0.get() + index * 8) }
    }
}

/// The queue. Protected by a lock of its owner.
#[derive(Debug, Default)]
pub struct Queue {
    first: Option<Sealed>,
    last: Option<Sealed>,
}

impl Queue {
    /// An empty queue.
    pub const fn new() -> Queue {
        Queue { first: None, last: None }
    }

    /// Seals a sheaf with the entries from index `begin` to its cursor: takes its cookie, and
    /// appends it. Cookies ascend, because the queue has a lock.
    ///
    /// # Safety
    /// The caller owns the sheaf, and has written all entries. It stays mapped until it is removed.
    pub unsafe fn append(&mut self, begin: usize, cursor: Cursor) -> Cookie {
        debug_assert!(begin >= STATE_ENTRIES);
        // After the last entry was added: a reader that may use one of the objects began before.
        let cookie = Cookie::get();
        let sheaf = Sealed::of(cursor.sheaf());
        let end = cursor.index() + 1;
        let indexes = begin | begin << INDEX_BITS | end << (2 * INDEX_BITS);
        sheaf.set_next(None);
        // Relaxed, both: the sheaf belongs to the caller; the lock publishes it.
        sheaf.entry(1).store(cookie.to_bits() as usize, Ordering::Relaxed);
        sheaf.entry(2).store(indexes, Ordering::Relaxed);
        match self.last {
            Some(last) => last.set_next(Some(sheaf)),
            None => self.first = Some(sheaf),
        }
        self.last = Some(sheaf);
        cookie
    }

    /// The oldest sheaf.
    pub fn oldest(&self) -> Option<Sealed> {
        self.first
    }

    /// The oldest sheaf if its cookie has passed. It stays in the queue.
    pub fn ready(&self) -> Option<Sealed> {
        self.first.filter(|first| first.cookie().has_passed())
    }

    /// Removes the oldest sheaf.
    pub fn remove_oldest(&mut self) {
        self.first = self.first.and_then(Sealed::next);
        if self.first.is_none() {
            self.last = None;
        }
    }

    /// The sheaves, oldest first.
    pub fn each(&self) -> impl Iterator<Item = Sealed> + use<> {
        core::iter::successors(self.first, |sheaf| sheaf.next())
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/queue.rs"]
mod tests;
