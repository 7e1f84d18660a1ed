//! Writes to pages, as a program does that uses what it allocates.

use core::hint::black_box;
use core::ops::Range;

use crate::harness::out_of_memory;

pub(super) const PAGE_BYTES: usize = 4096;

/// Writes a byte of each page of a fresh block.
#[inline]
pub(super) fn write_pages(block: *mut u8, bytes: Range<usize>) {
    if block.is_null() {
        out_of_memory();
    }
    for offset in bytes.step_by(PAGE_BYTES) {
        // SAFETY: in the block; volatile, so that the write is not dropped.
        unsafe { block.wrapping_add(offset).write_volatile(14) };
    }
    black_box(block);
}
