//! Memory for what is deferred: sheaves, cut from mapped extents.
//!
//! Deferring must work where `malloc` waits for memory, so this memory is mapped directly. An
//! extent is unmapped when all of its sheaves have come back, except [`SPARE_EXTENTS`], and those
//! that the kernel refuses to unmap. Each round maps a spare one if there is none, for when memory
//! runs out.
//!
//! ```text
//!   extent, aligned to its size:  header | sheaf 1 | sheaf 2 | ...
//! ```
//!
//! # Invariants
//! An extent is on the list exactly while it has a free sheaf.

use core::ops::Range;
use core::ptr::{null_mut, with_exposed_provenance_mut};

use sheaves_percpu::internal::Sheaf;
use sheaves_sys::lock::{Held, Lock};
use sheaves_sys::map;

/// Size and alignment of an extent, in bytes.
const EXTENT_BYTES: usize = 64 * 1024;
/// Number of extents without a sheaf in use that are kept mapped.
const SPARE_EXTENTS: u32 = 2;

/// At the begin of each extent.
struct Extent {
    /// What is unmapped with it, see [`map::aligned`].
    mapping: Range<usize>,
    next: *mut Extent,
    previous: *mut Extent,
    /// One bit for each sheaf that is free. The lowest are used first: those above them were mostly
    /// never touched.
    free: u64,
}

const ALL: u64 = !1;

pub(crate) struct State {
    first: *mut Extent,
    /// Extents without a sheaf in use.
    spare: u32,
    mapped: usize,
}

// SAFETY: extents are used under the lock only.
unsafe impl Send for State {}

pub(crate) struct Extents {
    pub(crate) state: Lock<State>,
}

pub(crate) static SHEAVES: Extents = Extents::new();

const _: () = assert!(Sheaf::BYTES >= size_of::<Extent>() && EXTENT_BYTES == 64 * Sheaf::BYTES);

impl Extents {
    const fn new() -> Extents {
        Extents { state: Lock::new(State { first: null_mut(), spare: 0, mapped: 0 }) }
    }

    /// A sheaf with arbitrary contents; `None` if memory is out.
    pub(crate) fn take(&self) -> Option<Sheaf> {
        #[cfg(feature = "faults")]
        if crate::defer::faults::FAULTS.fails() {
            return None;
        }
        let mut state = self.state.lock();
        if state.first.is_null() {
            drop(state);
            state = self.add()?;
        }
        // SAFETY: an extent on the list, used under the lock only.
        let extent = unsafe { &mut *state.first };
        state.spare -= u32::from(extent.free == ALL);
        let offset = extent.free.trailing_zeros() as usize * Sheaf::BYTES;
        extent.free &= extent.free - 1;
        // SAFETY: a part of the extent that no thread uses.
        let sheaf = unsafe { Sheaf::at((&raw const *extent).addr() + offset) };
        if extent.free == 0 {
            state.unlink(extent);
        }
        Some(sheaf)
    }

    /// Returns a sheaf.
    ///
    /// # Safety
    /// It came from [`Extents::take`] of this value, and is not used any more.
    pub(crate) unsafe fn give(&self, sheaf: Sheaf) {
        let address = sheaf.address() & !(EXTENT_BYTES - 1);
        let mut state = self.state.lock();
        // SAFETY: the extent of a sheaf that was in use, used under the lock only.
        let extent = unsafe { &mut *with_exposed_provenance_mut::<Extent>(address) };
        if extent.free == 0 {
            // SAFETY: it was on no list.
            unsafe { state.link(extent) };
        }
        extent.free |= 1 << (sheaf.address() % EXTENT_BYTES / Sheaf::BYTES);
        if extent.free != ALL {
            return;
        }
        if state.spare < SPARE_EXTENTS {
            state.spare += 1;
            return;
        }
        state.unlink(extent);
        state.mapped -= 1;
        let mapping = extent.mapping.clone();
        drop(state);
        // SAFETY: mapped by `add`, none of its sheaves is in use, and it is on no list.
        if !unsafe { map::unmap(mapping.start, mapping.len()) } {
            drop(self.insert(address, mapping));
        }
    }

    pub(crate) fn refill(&self) {
        if self.state.lock().spare == 0 {
            let _ = self.add();
        }
    }

    /// Maps an extent, and locks the list with it on it.
    fn add(&self) -> Option<Held<'_, State>> {
        let (address, mapping) = map::aligned(EXTENT_BYTES, EXTENT_BYTES)?;
        Some(self.insert(address, mapping))
    }

    /// Locks the list with an extent on it that is the caller's.
    fn insert(&self, address: usize, mapping: Range<usize>) -> Held<'_, State> {
        let extent = with_exposed_provenance_mut::<Extent>(address);
        let (next, previous) = (null_mut(), null_mut());
        // SAFETY: mapped, large enough, and aligned to far more.
        unsafe { extent.write(Extent { mapping, next, previous, free: ALL }) };
        let mut state = self.state.lock();
        // SAFETY: mapped, and on no list.
        unsafe { state.link(extent) };
        state.spare += 1;
        state.mapped += 1;
        state
    }

    /// Bytes of address space. For statistics.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.state.lock().mapped * EXTENT_BYTES
    }
}

impl State {
    /// # Safety
    /// The extent is mapped and on no list.
    unsafe fn link(&mut self, extent: *mut Extent) {
        // SAFETY: mapped, and used under the lock only.
        let new = unsafe { &mut *extent };
        (new.next, new.previous) = (self.first, null_mut());
        // SAFETY: null, or an extent on the list, which is another one.
        if let Some(first) = unsafe { self.first.as_mut() } {
            first.previous = extent;
        }
        self.first = extent;
    }

    fn unlink(&mut self, extent: &mut Extent) {
        // SAFETY: null, or an extent on the list, which is another one.
        match unsafe { extent.previous.as_mut() } {
            Some(previous) => previous.next = extent.next,
            None => self.first = extent.next,
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { extent.next.as_mut() } {
            next.previous = extent.previous;
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/extents.rs"]
mod tests;
