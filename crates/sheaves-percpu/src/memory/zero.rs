//! Zeroes objects when they are freed, outside every lock.
//!
//! Free memory reads as zero in every row, so an allocation has nothing to write. Untouched pages
//! and discarded pages are zero anyway, and what a program wrote is zeroed here. Words that are
//! already zero are only read. This does not take their cache lines from other CPUs, and allocates
//! no memory for untouched pages.

use crate::rows;

/// Zeroes an object in all rows where it may be anything else.
///
/// # Safety
/// The caller owns the object in every row. `offset` is a multiple of 4, and the object has `bytes`
/// rounded up to 4.
#[inline]
pub(crate) unsafe fn zero(offset: usize, bytes: usize) {
    // SAFETY: the same contract; the row is open.
    rows::written().for_each(|row| unsafe { zero_in_row(rows::row(row) + offset, bytes) });
}

/// # Safety
/// As [`zero`], for one row.
#[inline]
unsafe fn zero_in_row(address: usize, bytes: usize) {
    if (address | bytes).is_multiple_of(8) {
        // SAFETY: the same contract.
        unsafe { zero_units::<u64>(address, bytes / 8) };
    } else {
        // SAFETY: the same contract.
        unsafe { zero_units::<u32>(address, bytes.div_ceil(4)) };
    }
}

/// # Safety
/// The caller owns `count` units at `address`, which is aligned for them.
#[inline]
unsafe fn zero_units<U: Copy + Default + PartialEq>(address: usize, count: usize) {
    let start = core::ptr::with_exposed_provenance_mut::<U>(address);
    for index in 0..count {
        // SAFETY: inside the object.
        let unit = unsafe { start.add(index) };
        // SAFETY: the caller owns it; memory of rows is always initialised.
        if unsafe { unit.read() } != U::default() {
            // SAFETY: as above.
            unsafe { unit.write(U::default()) };
        }
    }
}
