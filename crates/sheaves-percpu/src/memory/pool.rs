//! Empty sheaves for the caches, under the memory lock.
//!
//! Sheaves are never given back to the system: a slot needs one for each size class that it uses.
//! The first entry of one that came back is the address of the next, or 0.

use sheaves_sys::map;

use crate::sheaf::{ENTRIES, SHEAF_BYTES};

/// Sheaves for which memory is mapped at a time. Memory of a sheaf is touched when it is first
/// used.
const SHEAVES_PER_MAP: usize = 64;

/// A sheaf that the holder owns: no word of any slot leads to it.
#[derive(Debug)]
pub(super) struct Sheaf(usize);

/// The entries of a sheaf: the sentinel, then objects.
type Entries = [usize; ENTRIES];

impl Sheaf {
    /// The sheaf in which a cursor lies.
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

    /// Writes the sentinel and makes the sheaf one of `count` objects, which are in entries 1 and
    /// up; its cursor. Ends the ownership.
    pub(super) fn into_cursor(mut self, count: usize) -> usize {
        self.entries()[0] = 1;
        self.0 + count * 8
    }

    /// How many objects lie below a cursor of this sheaf.
    pub(super) fn count(&self, cursor: usize) -> usize {
        (cursor - self.0) / 8
    }

    pub(super) fn address(&self) -> usize {
        self.0
    }

    /// # Safety
    /// The address came from [`Sheaf::address`] of a sheaf that nobody owns.
    pub(super) unsafe fn at(address: usize) -> Sheaf {
        Sheaf(address)
    }
}

/// The sheaves that no slot has.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Address of the first of those that came back, 0 for none.
    first: usize,
    /// Address of the next one that was never used.
    fresh: usize,
    /// How many were never used.
    fresh_count: usize,
    /// Sheaves that are or were in use.
    made: usize,
}

impl Pool {
    pub(super) const fn new() -> Pool {
        Pool { first: 0, fresh: 0, fresh_count: 0, made: 0 }
    }

    /// A sheaf with any content; `None` when there is no memory.
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

    /// In a child of a fork, where a thread that is not there was changing the pool: its sheaves
    /// are lost.
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
