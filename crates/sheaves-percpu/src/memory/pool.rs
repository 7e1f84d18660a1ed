//! Empty sheaves for the caches, under the memory lock.
//!
//! Sheaves are made a few at a time and never given back: a slot needs one for each size class
//! that it uses. A free sheaf's first entry is the address of the next one, or 0.

use sheaves_sys::map;

use crate::sheaf::{ENTRIES, SHEAF_BYTES};

/// Sheaves that are made at a time.
const SHEAVES_PER_MAP: usize = 16;

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
    /// Address of the first, 0 for none.
    first: usize,
    /// Sheaves that exist.
    made: usize,
}

impl Pool {
    pub(super) const fn new() -> Pool {
        Pool { first: 0, made: 0 }
    }

    /// A sheaf with any content; `None` when there is no memory.
    pub(super) fn take(&mut self) -> Option<Sheaf> {
        if self.first == 0 && !self.grow() {
            return None;
        }
        let mut sheaf = Sheaf(self.first);
        self.first = sheaf.entries()[0];
        Some(sheaf)
    }

    pub(super) fn put(&mut self, mut sheaf: Sheaf) {
        sheaf.entries()[0] = self.first;
        self.first = sheaf.0;
    }

    /// Bytes of all sheaves.
    pub(super) fn bytes(&self) -> usize {
        self.made * SHEAF_BYTES
    }

    /// Makes sheaves; false when there is no memory.
    #[cold]
    fn grow(&mut self) -> bool {
        let bytes = SHEAVES_PER_MAP * SHEAF_BYTES;
        let Some(start) = map::aligned(bytes, SHEAF_BYTES) else { return false };
        for index in (0..SHEAVES_PER_MAP).rev() {
            self.put(Sheaf(start + index * SHEAF_BYTES));
        }
        self.made += SHEAVES_PER_MAP;
        true
    }
}

const _: () = assert!(size_of::<Entries>() == SHEAF_BYTES);
