//! Which objects are out by handle: one bit for each 8 bytes of a row.
//!
//! The allocator's own maps cannot tell: an object that rests in a slot's cache is taken there,
//! and so are those behind typed owners, which nobody frees twice. The bit of an object is that of
//! the 8 bytes in which it begins; since objects with handles have 8 bytes at the least, no two
//! share one.
//!
//! | bit | meaning | transitions |
//! |---|---|---|
//! | 0 | nothing with a handle begins here | -> 1 by `alloc`, which owns the object |
//! | 1 | an object is out | -> 0 by `free`; of two that free at once one finds 0 |

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::map;

use crate::area::{self, rows};

/// Bytes of a row for which there is one bit.
pub(crate) const CELL_BYTES: usize = 8;
/// Bytes of a row for which there is one word of bits.
const WORD_CELL_BYTES: usize = CELL_BYTES * 64;

/// Address of the bits; 0 before the first object.
static BITS: AtomicUsize = AtomicUsize::new(0);
/// Bytes of bits that are readable and writable.
static COMMITTED: AtomicUsize = AtomicUsize::new(0);

/// Makes the bits of the first `row_bytes` of rows usable. Under the memory lock; false when there
/// is no memory.
pub(super) fn commit(row_bytes: usize) -> bool {
    // Relaxed, all: under the memory lock, which whoever gets an object has gone through.
    let mut base = BITS.load(Ordering::Relaxed);
    if base == 0 {
        let all = rows::row_bytes().div_ceil(WORD_CELL_BYTES * 64) * 64 * 8;
        let Some(reserved) = map::reserve(all) else { return false };
        base = reserved;
        BITS.store(base, Ordering::Relaxed);
    }
    let committed = COMMITTED.load(Ordering::Relaxed);
    // Whole groups of words, see `place`.
    let need = row_bytes.div_ceil(WORD_CELL_BYTES * 64) * 64 * 8;
    let need = need.next_multiple_of(map::page_bytes());
    if need <= committed {
        return true;
    }
    // SAFETY: part of the reservation made above.
    if !unsafe { map::commit(base + committed, need - committed) } {
        return false;
    }
    COMMITTED.store(need, Ordering::Relaxed);
    true
}

/// The word and the bit of an object.
///
/// Within each group of 64 words the index is transposed, so that words of neighbouring runs of
/// 512 bytes, which two slots may have in their caches, do not share a cache line.
#[inline]
fn place(offset: usize) -> (&'static AtomicUsize, usize) {
    let index = offset / WORD_CELL_BYTES;
    let index = (index & !63) | ((index & 7) << 3) | ((index >> 3) & 7);
    // Relaxed: as in `commit`.
    let word = area::word_at(BITS.load(Ordering::Relaxed) + index * 8);
    (word, 1 << (offset / CELL_BYTES % 64))
}

/// Notes that an object is out.
#[inline]
pub(super) fn set(offset: usize) {
    let (word, bit) = place(offset);
    // Relaxed: only the atomicity counts; an object changes hands by other means.
    word.fetch_or(bit, Ordering::Relaxed);
}

/// Notes that an object is no longer out; false when it was not.
#[inline]
#[must_use]
pub(super) fn clear(offset: usize) -> bool {
    // Relaxed: grows only, and whoever has an object learnt of it after it had grown that far.
    if offset / WORD_CELL_BYTES * 8 >= COMMITTED.load(Ordering::Relaxed) {
        return false;
    }
    let (word, bit) = place(offset);
    // Relaxed: as in `set`.
    word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
}
