//! Zeroing objects when they are given back, outside every lock.
//!
//! Memory that is free reads as zero in every row, so an allocation has nothing to write: pages
//! that nobody has touched are zero of their own accord, pages that were given back are zero
//! again, and what somebody wrote he zeroes himself. Words that are zero already are only read,
//! which fetches no cache line from another processor for itself and gives no memory to a page
//! that never had any.

use crate::area::rows;
use crate::slots;

/// The rows in which an object may hold something else than zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those of slots that threads have used, and the shared one.
    Used,
    /// Every open row: somebody wrote by a slot's number.
    Open,
}

impl Reach {
    /// Calls for each of these rows. The shared one is among them once it was touched.
    #[inline]
    pub(crate) fn each(self, mut visit: impl FnMut(usize)) {
        match self {
            Reach::Used => slots::installed_indexes().for_each(&mut visit),
            Reach::Open => {
                rows::open_rows().filter(|row| *row != rows::shared()).for_each(&mut visit);
            }
        }
        if let Some(shared) = rows::touched_shared() {
            visit(shared);
        }
    }
}

/// Zeroes an object in all rows that it may have reached.
///
/// # Safety
/// The object is the caller's alone, in every row; `offset` is a multiple of 4, and the object has
/// `bytes` rounded up to 4.
#[inline]
pub(crate) unsafe fn clear(offset: usize, bytes: usize, reach: Reach) {
    // SAFETY: the same contract; the row is open.
    reach.each(|row| unsafe { clear_at(rows::row(row) + offset, bytes) });
}

/// # Safety
/// As [`clear`], for one row.
#[inline]
unsafe fn clear_at(address: usize, bytes: usize) {
    if (address | bytes).is_multiple_of(8) {
        // SAFETY: the same contract.
        unsafe { clear_units::<u64>(address, bytes / 8) };
    } else {
        // SAFETY: the same contract.
        unsafe { clear_units::<u32>(address, bytes.div_ceil(4)) };
    }
}

/// # Safety
/// `count` units at `address`, which is aligned for them, are the caller's alone.
#[inline]
unsafe fn clear_units<U: Copy + Default + PartialEq>(address: usize, count: usize) {
    let start = core::ptr::with_exposed_provenance_mut::<U>(address);
    for index in 0..count {
        // SAFETY: inside the object.
        let unit = unsafe { start.add(index) };
        // SAFETY: the caller's alone; memory of rows is always initialised.
        if unsafe { unit.read() } != U::default() {
            // SAFETY: as above.
            unsafe { unit.write(U::default()) };
        }
    }
}
