//! The sizes of blocks that were resized: a `realloc` that changes no page looks here, and takes no
//! lock.
//!
//! A cache of 256 words; each block has its place in one. A word is the part of the address that
//! the place does not say, and the number of pages. Written under the table's lock: by a `realloc`
//! that has looked the block up there, and with 0 before the block is freed or gets another size.
//!
//! So a word that names a block is right for the block's owner: it was written by the owner, or by
//! an earlier one, and the size has not changed since.

use core::sync::atomic::{AtomicU64, Ordering};

const PLACES: usize = 256;
static WORDS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// Addresses are multiples of this. The kernel's pages may be larger.
const PAGE_BYTES: usize = 4096;
const PAGES_BITS: u32 = 32;

/// The place of a block, and its word without the pages. Addresses have up to 52 bits.
#[inline]
fn place(address: usize) -> (&'static AtomicU64, u64) {
    let page = address / PAGE_BYTES;
    let above = page / PLACES;
    // With the place and what is above, the rest of the number is known.
    let place = page ^ (above.wrapping_mul(0x9E37_79B9) >> 24);
    (&WORDS[place % PLACES], (above as u64) << PAGES_BITS)
}

/// Bytes of the caller's block, 0 if they are not known.
#[inline]
pub(super) fn bytes_of(address: usize) -> usize {
    let (word, above) = place(address);
    // Relaxed: see the head of this file; one word is read whole.
    let pages = word.load(Ordering::Relaxed) ^ above;
    let is_known = pages >> PAGES_BITS == 0 && address.is_multiple_of(PAGE_BYTES);
    if is_known { pages as usize * PAGE_BYTES } else { 0 }
}

/// Notes the bytes of a block. Under the table's lock.
pub(super) fn note(address: usize, bytes: usize) {
    let (word, above) = place(address);
    let pages = (bytes / PAGE_BYTES) as u64;
    if address >> 52 == 0 && pages >> PAGES_BITS == 0 {
        // Relaxed: for the caller.
        word.store(above | pages, Ordering::Relaxed);
    }
}

/// Forgets a block. Under the table's lock.
pub(super) fn forget(address: usize) {
    let (word, above) = place(address);
    // Relaxed, both: the next owner of the address gets it by the table's lock.
    if (word.load(Ordering::Relaxed) ^ above) >> PAGES_BITS == 0 {
        word.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/sizes.rs"]
mod tests;
