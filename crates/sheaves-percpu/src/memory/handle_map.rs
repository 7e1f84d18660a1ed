//! Which objects are allocated by handle: a byte for each offset at which one can begin.
//!
//! The allocator's own bitmaps cannot tell. They also count as allocated the free objects in a
//! slot's cache, and the objects of types such as [`crate::PerCpu`], which are never freed twice.
//!
//! | byte | meaning | transitions |
//! |---|---|---|
//! | 0 | no object with a handle begins here | -> 1 by `alloc`, which owns the object |
//! | 1 | an object is allocated | -> 0 by `free`; of two concurrent frees one finds 0 |
//!
//! A bit would share its byte with the objects of other threads, and setting it would need an
//! atomic instruction. A byte is set by a plain store, and only `free` needs an atomic instruction.
//!
//! One map, with a byte per 8 bytes, is for objects below 16 bytes: no two of them begin in the
//! same 8 bytes. The other, with a byte per 16 bytes, is for larger objects. They exist once, not
//! in each slot, and use memory only where there are objects with handles.

use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

use sheaves_sys::map;

use crate::rows;

/// Bytes of the smallest object with a handle; smaller ones get this size.
pub(super) const BYTES_MIN: usize = 1 << SHIFTS[0];
/// Bytes of a row per byte of each map, as powers of two.
const SHIFTS: [u32; 2] = [rows::ONCE_SHIFTS[0], rows::ONCE_SHIFTS[1]];
/// Smallest size in bytes of an object in the second map.
const SECOND_BYTES_MIN: usize = 1 << SHIFTS[1];

/// Commits the bytes for the first `row_bytes` of rows. Under the memory lock; false when memory is
/// out.
pub(super) fn commit(row_bytes: usize) -> bool {
    // Rows are committed in whole pages.
    let row_bytes = row_bytes.next_multiple_of(map::page_bytes());
    (0..SHIFTS.len()).all(|index| rows::commit_once(index, row_bytes >> SHIFTS[index]))
}

/// Discards the bytes for a range of a row, and what completes their pages among those for
/// `around`, where no object is. They stay 0.
pub(super) fn discard(range: Range<usize>, around: Range<usize>) {
    for (index, shift) in SHIFTS.into_iter().enumerate() {
        let bytes = |range: &Range<usize>| range.start >> shift..range.end >> shift;
        // SAFETY: committed with the rows; discarding does not change bytes that are 0.
        unsafe { rows::discard(rows::ONCE[index].start(), &bytes(&range), &bytes(&around)) };
    }
}

/// The byte of an object of `size` bytes, in a committed part of rows.
#[inline]
fn byte_of(offset: usize, size: usize) -> &'static AtomicU8 {
    let map = usize::from(size >= SECOND_BYTES_MIN);
    let address = rows::ONCE[map].start() + (offset >> SHIFTS[map]);
    let byte = core::ptr::with_exposed_provenance::<AtomicU8>(address);
    // SAFETY: 1. callers pass offsets in committed rows, whose bytes were committed before and are
    // never unmapped; 2. all access is atomic.
    unsafe { &*byte }
}

/// Records that an object is allocated.
#[inline]
pub(super) fn set(offset: usize, size: usize) {
    // Relaxed: the caller owns the object; its threads synchronise by other means.
    byte_of(offset, size).store(1, Ordering::Relaxed);
}

/// Records that an object is free; false when it was not recorded as allocated.
#[inline]
#[must_use]
pub(super) fn clear(offset: usize, size: usize) -> bool {
    // Relaxed: only atomicity matters; as in `set`.
    byte_of(offset, size).swap(0, Ordering::Relaxed) != 0
}
