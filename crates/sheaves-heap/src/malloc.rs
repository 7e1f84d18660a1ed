//! The fast paths: `malloc`, `free` and their forms for callers that know the layout.
//!
//! ```text
//!   malloc: size -> class (one load) -> pop from the class's sheaf
//!   free:   address -> granule (arithmetic) -> owner (one load) -> class -> push
//! ```
//!
//! A free checks that the address is one of ours and the start of an object; a caller that gives
//! the layout saves both looks. Everything else is in [`crate::slow`].

use core::alloc::Layout;
use core::ptr::with_exposed_provenance_mut;

use sheaves_percpu::{self as percpu, Word, sheaf::is_sentinel};
use sheaves_slab::CacheId;
use sheaves_slab::granule;

use crate::classes::{self, CLASSES, SMALL_BYTES_MAX};
use crate::slow;

/// Per class, what `free` needs to check that an address starts an object.
#[derive(Clone, Copy)]
struct Check {
    /// ceil(2^64 / size).
    reciprocal: u64,
    /// Bytes of a slab, less one: slabs are aligned to their size.
    offset_mask: u64,
}

const _: () = assert!(size_of::<Check>() == 16);

static CHECKS: [Check; CLASSES] = {
    let mut checks = [Check { reciprocal: 0, offset_mask: 0 }; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let size = classes::SIZE_TABLE[class] as u64;
        let granules = match size {
            0..=1024 => 1,
            1025..=2048 => 2,
            2049..=4096 => 4,
            _ => 8,
        };
        checks[class] =
            Check { reciprocal: u64::MAX / size + 1, offset_mask: granules * (64 << 10) - 1 };
        class += 1;
    }
    checks
};

/// At least `size` bytes at a multiple of 16, uninitialised; null (and `ENOMEM`) when there is no
/// memory. Size 0 gives a unique pointer.
///
/// Common path: about 20 instructions, no atomic. May sleep on a lock for microseconds otherwise.
/// Safe in every thread at any time; not in signal handlers.
#[inline(always)]
#[must_use]
pub fn malloc(size: usize) -> *mut u8 {
    if size <= SMALL_BYTES_MAX {
        let class = classes::of_size(size);
        let object = percpu::pop(CacheId::new(class as u16).allocs());
        if !is_sentinel(object) {
            return with_exposed_provenance_mut(object);
        }
    }
    slow::malloc(size)
}

/// Gives memory back. Null is ignored. `errno` is kept.
///
/// An address that is not ours, or not the start of a block, ends the process with one line; a
/// double free does so when it is noticed: at once in debug mode, otherwise when the block returns
/// to its slab.
///
/// # Safety
/// `block` came from this heap, and nobody uses it any more.
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    let address = block.expose_provenance();
    let owner = granule::owner_of(address);
    // Owners of size classes are 8, 24, 40, ...: anything else wraps around or is too large.
    let place = usize::from(owner.wrapping_sub(8));
    if place < 16 * CLASSES && starts_object(place, address) {
        // SAFETY: objects are even, and the caller gives up this one.
        if unsafe { percpu::push(Word::at_offset(usize::from(owner)), address) } {
            return;
        }
    }
    // SAFETY: the same contract.
    unsafe { slow::free(block) };
}

/// True when an object of class `place / 16` can start at an address.
#[inline(always)]
fn starts_object(place: usize, address: usize) -> bool {
    let check = &CHECKS[place / size_of::<Check>()];
    // A multiple of the size has a product whose low half is below the reciprocal: see
    // `Shape::index_of` in the slab crate.
    (address as u64 & check.offset_mask).wrapping_mul(check.reciprocal) < check.reciprocal
}

/// [`malloc`] for a layout: any alignment.
#[inline(always)]
#[must_use]
pub fn alloc_layout(layout: Layout) -> *mut u8 {
    if let Some(class) = classes::of_layout(layout.size(), layout.align()) {
        let object = percpu::pop(CacheId::new(class as u16).allocs());
        if !is_sentinel(object) {
            return with_exposed_provenance_mut(object);
        }
    }
    slow::alloc_layout(layout)
}

/// [`free`] for a caller that knows the layout: saves the look at the address.
///
/// # Safety
/// `block` came from [`alloc_layout`] or its kin with this layout, and nobody uses it any more.
#[inline(always)]
pub unsafe fn dealloc_layout(block: *mut u8, layout: Layout) {
    if let Some(class) = classes::of_layout(layout.size(), layout.align()) {
        let address = block.expose_provenance();
        // SAFETY: objects are even, and the caller gives up this one.
        if unsafe { percpu::push(CacheId::new(class as u16).frees(), address) } {
            return;
        }
    }
    // SAFETY: the same contract.
    unsafe { slow::free(block) };
}
