//! Granules of 64 KiB, and the owner map, which leads from an address to the word that `free`
//! pushes onto.
//!
//! The owner map has two bytes per granule: the offset, in a slot's row, of the word onto which an
//! object of the granule is freed. Where objects are not freed that way it is the offset of a
//! word that is always vacant. State of an entry:
//!
//! | value | meaning | written by |
//! |---|---|---|
//! | 0 | free, or never used | the code that releases the granule |
//! | 16 n + 16 | slab of size class n of malloc | the class |
//! | `cache_id::NAMED` | slab of a named cache, whose number is in the slab's header | the cache |
//! | `cache_id::WATCHED` | watched slab of any cache: frees take the slow path | the cache |
//!
//! An entry changes only while no thread may pass an address inside its granule to `free`. So the
//! fast path of `free` reads it without ordering: the address itself reached the caller by a path
//! that is ordered after the write of the entry.

use core::sync::atomic::{AtomicU16, Ordering};

use sheaves_percpu::internal::TABLE;

use crate::space::cache_id::WATCHED;
use crate::space::checking;
use crate::space::window::{self, GRANULE_BYTES};

/// Number of a granule, counted from the start of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Granule(pub(crate) u32);

/// The owner map's entry for an address, for the fast path of `free`; `None` for an address outside
/// the heap, and in a hardened process.
#[inline(always)]
#[must_use]
pub fn entry_of(address: usize) -> Option<usize> {
    // Relaxed: see the head of this file.
    entry_in(TABLE.window.load(Ordering::Relaxed), address)
}

/// [`entry_of`] in any process.
#[inline]
pub(crate) fn owner_of(address: usize) -> Option<usize> {
    entry_in(window::OWNERS.base(), address)
}

/// Bytes from the heap's start to its end. It only grows.
pub(crate) fn heap_bytes() -> usize {
    // Relaxed: see the head of this file.
    TABLE.heap_bytes_end.load(Ordering::Relaxed).saturating_sub(first().0 as usize * GRANULE_BYTES)
}

#[inline(always)]
fn entry_in(window: usize, address: usize) -> Option<usize> {
    // Relaxed: see the head of this file. The heap's end only grows.
    let offset = address.wrapping_sub(window);
    if offset >= TABLE.heap_bytes_end.load(Ordering::Relaxed) {
        return None;
    }
    // Relaxed: as above.
    Some(usize::from(entry_at(window, offset / GRANULE_BYTES).load(Ordering::Relaxed)))
}

/// The entry of a granule. The owner map starts with the window.
#[inline(always)]
fn entry_at(window: usize, number: usize) -> &'static AtomicU16 {
    let entry = core::ptr::with_exposed_provenance::<AtomicU16>(window + 2 * number);
    // SAFETY: the number is that of a granule of the heap; the map covers it and stays mapped; all
    // access is atomic.
    unsafe { &*entry }
}

/// True when an object is in a watched slab.
#[inline]
#[must_use]
pub fn is_watched(object: usize) -> bool {
    owner_of(object) == Some(usize::from(WATCHED))
}

impl Granule {
    /// The granule of an address; `None` for an address outside the heap.
    #[inline]
    #[must_use]
    pub fn of(address: usize) -> Option<Granule> {
        // Relaxed: see the head of this file. The heap's end only grows.
        let offset = address.wrapping_sub(window::OWNERS.base());
        let is_inside = offset < TABLE.heap_bytes_end.load(Ordering::Relaxed);
        is_inside.then_some(Granule((offset / GRANULE_BYTES) as u32))
    }

    /// First address of the granule.
    #[inline]
    #[must_use]
    pub fn address(self) -> usize {
        window::OWNERS.base() + self.0 as usize * GRANULE_BYTES
    }

    /// The owner map's entry for this granule.
    #[inline]
    #[must_use]
    pub fn entry(self) -> u16 {
        // Relaxed: see the head of this file.
        self.entry_ref().load(Ordering::Relaxed)
    }

    /// Writes the owner map's entries for this and the following granules.
    pub(crate) fn set_entry(self, count: usize, entry: u16) {
        for index in 0..count {
            // Release: the header was written before. Readers need no Acquire: they got their
            // address by a path that is ordered after this store.
            Granule(self.0 + index as u32).entry_ref().store(entry, Ordering::Release);
        }
    }

    /// The first granule of this one's aligned group of `count`, a power of two.
    pub(crate) fn align_down(self, count: usize) -> Granule {
        Granule(self.0 & !(count as u32 - 1))
    }

    /// The granule `count` after this one.
    #[must_use]
    pub fn after(self, count: usize) -> Granule {
        Granule(self.0 + count as u32)
    }

    #[inline]
    fn entry_ref(self) -> &'static AtomicU16 {
        entry_at(window::OWNERS.base(), self.0 as usize)
    }
}

/// The first granule of the heap.
pub(crate) fn first() -> Granule {
    Granule(((window::HEAP.base() - window::OWNERS.base()) / GRANULE_BYTES) as u32)
}

/// The granules of the heap from the one at a position on, without a step for each before it.
pub(crate) fn all_from(position: usize) -> impl Iterator<Item = Granule> {
    // Relaxed: see the head of this file. Before the start it is 0.
    let end = TABLE.heap_bytes_end.load(Ordering::Relaxed) / GRANULE_BYTES;
    (first().0 as usize + position..end).map(|number| Granule(number as u32))
}

/// Those of slabs, so that their headers are mapped.
pub(crate) fn in_slabs() -> impl Iterator<Item = Granule> {
    all_from(0).filter(|granule| granule.entry() != 0)
}

/// Publishes that the heap has `granules`. Under the chunks lock.
pub(crate) fn publish(granules: usize) {
    // Release, both: the entries are mapped. Readers need no Acquire, as in `set_entry`.
    if !checking::is_hardened() {
        TABLE.window.store(window::OWNERS.base(), Ordering::Release);
    }
    TABLE.heap_bytes_end.store((first().0 as usize + granules) * GRANULE_BYTES, Ordering::Release);
}

#[cfg(test)]
#[path = "../../tests/unit/granule.rs"]
mod tests;
