//! Granules of 64 KiB: which cache one belongs to.
//!
//! The owner map has two bytes per granule. State of an entry:
//!
//! | value | meaning | written by |
//! |---|---|---|
//! | 0 | free, or never used | whoever releases the granule |
//! | 1 ..= 1024 | slab of the cache with that number minus one | the cache, when it makes the slab |
//! | [`RUN_START`] | first granule of a run of pages | the heap |
//! | [`RUN_INSIDE`] | a later granule of such a run | the heap |
//!
//! An entry changes only while nobody may pass an address inside its granule to `free`, so the
//! fast path of `free` reads it without ordering: the address itself came to the caller by a
//! path that is ordered after the entry was written.

use core::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use crate::window::{self, GRANULE_BYTES};

/// Owner of the first granule of a run.
pub const RUN_START: u16 = 0xFFFF;
/// Owner of the other granules of a run.
pub const RUN_INSIDE: u16 = 0xFFFE;

/// What the fast path of `free` needs, together on one cache line.
#[repr(C, align(64))]
struct Map {
    /// First address of the heap.
    heap: AtomicUsize,
    /// Granules that have an entry; grows under the chunks lock.
    granules: AtomicUsize,
    /// Address of entry 0.
    owners: AtomicUsize,
}

static MAP: Map =
    Map { heap: AtomicUsize::new(0), granules: AtomicUsize::new(0), owners: AtomicUsize::new(0) };

/// Number of a granule, from the beginning of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Granule(pub(crate) u32);

impl Granule {
    /// The granule in which an address lies; `None` for an address outside the heap.
    #[inline]
    #[must_use]
    pub fn of(address: usize) -> Option<Granule> {
        // Relaxed, both: see the head of this file. The limit only grows.
        let offset = address.wrapping_sub(MAP.heap.load(Ordering::Relaxed));
        let number = offset / GRANULE_BYTES;
        if number >= MAP.granules.load(Ordering::Relaxed) {
            return None;
        }
        Some(Granule(number as u32))
    }

    /// First address of the granule.
    #[inline]
    #[must_use]
    pub fn address(self) -> usize {
        window::HEAP.base() + self.0 as usize * GRANULE_BYTES
    }

    /// The owner map's entry for this granule.
    #[inline]
    #[must_use]
    pub fn owner(self) -> u16 {
        // Relaxed: see the head of this file.
        self.entry().load(Ordering::Relaxed)
    }

    /// Writes the owner map's entries for this and the following granules.
    pub(crate) fn set_owner(self, count: usize, first: u16, rest: u16) {
        for index in 0..count {
            let owner = if index == 0 { first } else { rest };
            // Release: the header was written before; its partner is the reader's dependence on
            // an address that it got after this store.
            Granule(self.0 + index as u32).entry().store(owner, Ordering::Release);
        }
    }

    /// Marks this and the following granules as one run of pages.
    pub fn set_owner_of_run(self, count: usize) {
        self.set_owner(count, RUN_START, RUN_INSIDE);
    }

    /// Marks granules that the caller owns as free, before it gives them back.
    pub fn clear_owner(self, count: usize) {
        self.set_owner(count, 0, 0);
    }

    /// The granule `count` further on.
    #[must_use]
    pub fn after(self, count: usize) -> Granule {
        Granule(self.0 + count as u32)
    }

    #[inline]
    fn entry(self) -> &'static AtomicU16 {
        // Relaxed: written once, before the first granule exists.
        let address = MAP.owners.load(Ordering::Relaxed) + 2 * self.0 as usize;
        let entry = core::ptr::with_exposed_provenance::<AtomicU16>(address);
        // SAFETY: granules are made from numbers below the mapped part of the owner map, which
        // stays mapped; all access is atomic.
        unsafe { &*entry }
    }
}

/// Tells the map of a heap that has grown to `granules`. Under the chunks lock.
pub(crate) fn publish(granules: usize) {
    // Relaxed, both: constant after the first call, which precedes the first granule.
    MAP.heap.store(window::HEAP.base(), Ordering::Relaxed);
    MAP.owners.store(window::OWNERS.base(), Ordering::Relaxed);
    // Release: the entries are mapped; partner as in the head of this file.
    MAP.granules.store(granules, Ordering::Release);
}
