//! The pool of empty sheaves for the caches, under the memory lock.
//!
//! Sheaves are never unmapped: a slot needs one for each size class that it uses.

use sheaves_sys::map;

use crate::sheaf::Sheaf;

/// Number of sheaves that are mapped at a time. A sheaf's memory is first touched at its first use.
const SHEAVES_PER_MAP: usize = 64;

/// The sheaves that are in no slot.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The first free sheaf that was in use before; the others follow by [`Sheaf::next`].
    first: Option<Sheaf>,
    /// Address of the next sheaf that was never used.
    fresh: usize,
    /// Number of sheaves that were never used.
    fresh_count: usize,
    /// Number of sheaves that are or were in use.
    made: usize,
}

impl Pool {
    pub(super) const fn new() -> Pool {
        Pool { first: None, fresh: 0, fresh_count: 0, made: 0 }
    }

    /// A sheaf for the caller, with room for [`Sheaf::OBJECTS_MAX`]; `None` when memory is out.
    pub(super) fn take(&mut self) -> Option<Sheaf> {
        let Some(sheaf) = self.first else { return self.make() };
        self.first = sheaf.next();
        Some(sheaf)
    }

    /// # Safety
    /// The caller owns the sheaf, which is from [`Pool::take`], and gives it up.
    pub(super) unsafe fn put(&mut self, sheaf: Sheaf) {
        // SAFETY: the same contract.
        unsafe { sheaf.set_next(self.first) };
        self.first = Some(sheaf);
    }

    /// For a fork's child, when a thread that the child lacks was changing the pool: its free
    /// sheaves are lost.
    pub(super) fn recover(&mut self) {
        (self.first, self.fresh_count) = (None, 0);
    }

    /// Bytes of all sheaves that are or were in use.
    pub(super) fn bytes(&self) -> usize {
        self.made * Sheaf::BYTES
    }

    fn make(&mut self) -> Option<Sheaf> {
        if self.fresh_count == 0 {
            self.fresh = map::aligned(SHEAVES_PER_MAP * Sheaf::BYTES, Sheaf::BYTES)?;
            self.fresh_count = SHEAVES_PER_MAP;
        }
        // SAFETY: mapped above, for this use alone, and never unmapped.
        let sheaf = unsafe { Sheaf::at(self.fresh) };
        // SAFETY: no other thread knows the sheaf.
        unsafe { sheaf.format(Sheaf::OBJECTS_MAX) };
        self.fresh += Sheaf::BYTES;
        self.fresh_count -= 1;
        self.made += 1;
        Some(sheaf)
    }
}
