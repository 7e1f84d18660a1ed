//! Which objects are out by handle: a byte for each place where one can begin.
//!
//! The allocator's own maps cannot tell: an object that rests in a slot's cache is taken there,
//! and so are those behind typed owners, which nobody frees twice.
//!
//! | byte | meaning | transitions |
//! |---|---|---|
//! | 0 | nothing with a handle begins here | -> 1 by `alloc`, which owns the object |
//! | 1 | an object is out | -> 0 by `free`; of two that free at once one finds 0 |
//!
//! It is a byte and not a bit because the neighbours' owners are other threads: so an allocation
//! only stores, and one atomic instruction is left, that of the free.
//!
//! There is a map of objects below 16 bytes, of which no two begin in the same 8 bytes, and one of
//! all others, of which no two begin in the same 16. They exist once, not in each slot, and take
//! memory where there are objects with handles: an eighth or a sixteenth of these in one slot.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use sheaves_sys::map;

use crate::area::rows;

/// Bytes of the smallest object with a handle.
pub(super) const BYTES_MIN: usize = 1 << SHIFTS[0];
/// Bytes of a row for which a map has one byte, as powers of two.
const SHIFTS: [u32; 2] = [rows::ONCE_SHIFTS[0], rows::ONCE_SHIFTS[1]];
/// From so many bytes on an object is in the second map.
const LARGE_BYTES_MIN: usize = 1 << SHIFTS[1];

/// Where the maps begin; 0 before [`place`].
static STARTS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Learns where the marks lie. Under the memory lock.
pub(super) fn place() {
    for (index, start) in STARTS.iter().enumerate() {
        // Relaxed: `caches::open` publishes them, and whoever frees has been through its Acquire.
        start.store(rows::once(index).start(), Ordering::Relaxed);
    }
}

/// Makes the marks of the first `row_bytes` of rows usable. Under the memory lock; false when
/// there is no memory.
pub(super) fn commit(row_bytes: usize) -> bool {
    // Rows are committed in whole pages.
    let row_bytes = row_bytes.next_multiple_of(map::page_bytes());
    (0..SHIFTS.len()).all(|index| rows::commit_once(index, row_bytes >> SHIFTS[index]))
}

/// Gives the memory of the marks of bytes `from..to` of a row back, as far as it is whole pages:
/// no object lies there. They are 0 afterwards, as they were.
pub(super) fn forget(from: usize, to: usize) {
    let page = map::page_bytes();
    for index in 0..SHIFTS.len() {
        // Relaxed: under the memory lock.
        let first = STARTS[index].load(Ordering::Relaxed);
        let (start, end) = (first + (from >> SHIFTS[index]), first + (to >> SHIFTS[index]));
        let (start, end) = (start.next_multiple_of(page), end / page * page);
        if start < end {
            // SAFETY: committed with the rows; a mark that is 0 is not changed by that.
            unsafe { map::discard(start, end - start) };
        }
    }
}

/// The mark of an object of so many bytes, in a part of rows that is committed.
#[inline]
fn mark(offset: usize, size: usize) -> &'static AtomicU8 {
    let map = usize::from(size >= LARGE_BYTES_MIN);
    // Relaxed: as in `place`.
    let start = STARTS[map].load(Ordering::Relaxed);
    let address = start + (offset >> SHIFTS[map]);
    let mark = core::ptr::with_exposed_provenance::<AtomicU8>(address);
    // SAFETY: 1. callers pass offsets in committed rows, whose marks were committed before and are
    // never unmapped; 2. all access is atomic.
    unsafe { &*mark }
}

/// Notes that an object is out.
#[inline]
pub(super) fn set(offset: usize, size: usize) {
    // Relaxed: the caller owns the object, and it changes hands by other means.
    mark(offset, size).store(1, Ordering::Relaxed);
}

/// Notes that an object is no longer out; false when it was not.
#[inline]
#[must_use]
pub(super) fn clear(offset: usize, size: usize) -> bool {
    // Relaxed: only the atomicity counts; as in `set`.
    mark(offset, size).swap(0, Ordering::Relaxed) != 0
}
