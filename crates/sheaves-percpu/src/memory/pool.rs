//! The pool of empty sheaves for the caches, under the memory lock.
//!
//! Sheaves are never unmapped: a slot needs one for each size class that it uses. In a free sheaf,
//! the first entry is the address of the next free one, or 0.

use sheaves_sys::map;

use crate::sheaf::{ENTRIES, SHEAF_BYTES};

/// Number of sheaves that are mapped at a time. A sheaf's memory is first touched at its first use.
const SHEAVES_PER_MAP: usize = 64;

/// A sheaf that the holder owns: no word of any slot refers to it.
#[derive(Debug)]
pub(super) struct Sheaf(usize);

/// The entries of a sheaf: the sentinel, then objects.
type Entries = [usize; ENTRIES];

impl Sheaf {
    /// The sheaf that a cursor points into.
    ///
    /// # Safety
    /// The caller has taken the cursor out of a word of a cache, so that it owns the sheaf.
    pub(super) unsafe fn of_cursor(cursor: usize) -> Sheaf {
        Sheaf(crate::sheaf::base(cursor))
    }

    pub(super) fn entries(&mut self) -> &mut Entries {
        let entries = core::ptr::with_exposed_provenance_mut::<Entries>(self.0);
        // SAFETY: 1. the address is that of a sheaf's memory, which is never unmapped and always
        // initialised; 2. the sheaf is owned, and this borrow is its only use.
        unsafe { &mut *entries }
    }

    /// Makes the sheaf one of `count` objects, in entries 1 and up: writes the sentinel and returns
    /// the cursor. Ends the ownership.
    pub(super) fn into_cursor(mut self, count: usize) -> usize {
        self.entries()[0] = 1;
        self.0 + count * 8
    }

    /// Number of objects below a cursor of this sheaf.
    pub(super) fn count(&self, cursor: usize) -> usize {
        (cursor - self.0) / 8
    }

    pub(super) fn address(&self) -> usize {
        self.0
    }

    /// # Safety
    /// The address is from [`Sheaf::address`], and the sheaf has no other owner.
    pub(super) unsafe fn at(address: usize) -> Sheaf {
        Sheaf(address)
    }
}

/// The sheaves that are in no slot.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Address of the first free sheaf that was in use before; 0 for none.
    first: usize,
    /// Address of the next sheaf that was never used.
    fresh: usize,
    /// Number of sheaves that were never used.
    fresh_count: usize,
    /// Number of sheaves that are or were in use.
    made: usize,
}

impl Pool {
    pub(super) const fn new() -> Pool {
        Pool { first: 0, fresh: 0, fresh_count: 0, made: 0 }
    }

    /// A sheaf with arbitrary content; `None` when memory is out.
    pub(super) fn take(&mut self) -> Option<Sheaf> {
        if self.first == 0 {
            return self.make();
        }
        let mut sheaf = Sheaf(self.first);
        self.first = sheaf.entries()[0];
        Some(sheaf)
    }

    pub(super) fn put(&mut self, mut sheaf: Sheaf) {
        sheaf.entries()[0] = self.first;
        self.first = sheaf.0;
    }

    /// For a fork's child, when a thread that the child lacks was changing the pool: its free
    /// sheaves are lost.
    pub(super) fn recover(&mut self) {
        (self.first, self.fresh, self.fresh_count) = (0, 0, 0);
    }

    /// Bytes of all sheaves that are or were in use.
    pub(super) fn bytes(&self) -> usize {
        self.made * SHEAF_BYTES
    }

    fn make(&mut self) -> Option<Sheaf> {
        if self.fresh_count == 0 {
            self.fresh = map::aligned(SHEAVES_PER_MAP * SHEAF_BYTES, SHEAF_BYTES)?;
            self.fresh_count = SHEAVES_PER_MAP;
        }
        let sheaf = Sheaf(self.fresh);
        self.fresh += SHEAF_BYTES;
        self.fresh_count -= 1;
        self.made += 1;
        Some(sheaf)
    }
}

const _: () = assert!(size_of::<Entries>() == SHEAF_BYTES);
