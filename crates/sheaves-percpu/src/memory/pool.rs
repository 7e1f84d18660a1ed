//! The pool of empty sheaves for the caches, under the memory lock.
//!
//! Sheaves are never unmapped: a slot needs one for each size class that it uses.

use core::ops::Range;

use sheaves_sys::map;

use crate::sheaf::Sheaf;

/// Bytes that are mapped at a time. A sheaf's memory is first touched at its first use.
const MAP_BYTES: usize = 64 * Sheaf::BYTES;

/// The sheaves that are in no slot.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The first free sheaf that was in use before; the others follow by [`Sheaf::next`].
    first: Option<Sheaf>,
    /// Addresses of the sheaves that were never used.
    fresh: Range<usize>,
}

impl Pool {
    pub(super) const fn new() -> Pool {
        Pool { first: None, fresh: 0..0 }
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

    fn make(&mut self) -> Option<Sheaf> {
        if self.fresh.is_empty() {
            let start = map::aligned(MAP_BYTES, Sheaf::BYTES)?;
            self.fresh = start..start + MAP_BYTES;
        }
        // SAFETY: mapped above, for this use alone, and never unmapped.
        let sheaf = unsafe { Sheaf::at(self.fresh.start) };
        // SAFETY: no other thread knows the sheaf.
        unsafe { sheaf.format(Sheaf::OBJECTS_MAX) };
        self.fresh.start += Sheaf::BYTES;
        Some(sheaf)
    }
}
