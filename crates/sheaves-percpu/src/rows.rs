//! The rows: address space with one part per slot.
//!
//! ```text
//!   base              base + stride                       base + slots * stride
//!   | block | objects ... | block | objects ... |   ...   | unused | objects ... | once ...
//!     row of slot 0         row of slot 1                   the shared row
//! ```
//!
//! A per-CPU object is at the same offset in every row. A row begins with its block of words, and
//! objects follow. The last row is shared by the threads without a slot, which therefore change it
//! by atomic instructions only. After it come the *single parts*, which exist once.
//!
//! A row is inaccessible until it is *opened*. Then its first [`committed_bytes`] are accessible, a
//! number that grows with the objects. So an unused slot costs no memory, no address space and no
//! system call. The first row is open from the start on, unless the space is a reservation. The
//! stride is a power of two plus one page, lest an object's copies compete for the same sets of
//! every CPU cache.
//!
//! | state | written by | when |
//! |---|---|---|
//! | space, stride, number of slots, starts of the single parts | [`reserve`] | before the start |
//! | open rows, committed bytes | the holder of the slots lock | only grows |
//! | committed bytes of the single parts | the holder of the memory lock | only grows |
//! | shared row touched | any thread | before a thread without a slot changes an object |

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sheaves_sys::map;
use sheaves_sys::space::{Area, Part, Space};
use sheaves_sys::topology::CPUS_MAX;

use crate::word::BLOCK_BYTES;

/// Address space for all rows together, where address space has no limit.
const TOTAL_BYTES: usize = 128 << 30;
pub(crate) const ROW_BYTES_MAX: usize = 1 << 30;
/// Smallest size of a row for any number of rows, where address space has no limit.
const ROW_BYTES_MIN: usize = 64 << 20;
/// Divisor of the address-space limit: this fraction may be reserved for rows.
const LIMIT_SHARE: usize = 16;

#[unsafe(link_section = ".sheaves_load")]
static SPACE: Space = Space::new();
#[unsafe(link_section = ".sheaves_load")]
static STRIDE: AtomicUsize = AtomicUsize::new(0);
/// Number of slots; 0 before the start. The shared row comes after their rows.
#[unsafe(link_section = ".sheaves_load")]
static SLOTS: AtomicUsize = AtomicUsize::new(0);
/// See [`committed_bytes`].
#[unsafe(link_section = ".sheaves_load")]
static COMMITTED: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".sheaves_load")]
static OPEN: [AtomicUsize; CPUS_MAX / 64 + 1] = [const { AtomicUsize::new(0) }; CPUS_MAX / 64 + 1];
/// Sizes of the single parts: log2 of the bytes of a row per byte of the part.
pub(crate) const ONCE_SHIFTS: [u32; 3] = [3, 4, 3];
/// The single parts: two maps of marks and the metadata of the objects, see `crate::memory`.
#[unsafe(link_section = ".sheaves_load")]
pub(crate) static ONCE: [Part; ONCE_SHIFTS.len()] = [const { Part::new() }; ONCE_SHIFTS.len()];
/// True once the shared row may hold anything other than zeros.
static SHARED_TOUCHED: AtomicBool = AtomicBool::new(false);

/// Address space of a row: a power of two, without the additional page.
fn wanted_row_bytes(rows: usize, limit: Option<usize>) -> usize {
    let (total, least) = match limit {
        Some(limit) => (limit / LIMIT_SHARE, BLOCK_BYTES),
        None => (TOTAL_BYTES, ROW_BYTES_MIN),
    };
    let share = (total / rows).clamp(least, ROW_BYTES_MAX);
    1 << share.ilog2()
}

/// Places the rows of `slots` slots and the shared row. Rows become smaller where address space is
/// short. False, with nothing changed, when not even the blocks of words fit.
pub(crate) fn reserve(slots: usize) -> bool {
    let (rows, page) = (slots + 1, map::page_bytes());
    let least = BLOCK_BYTES.next_multiple_of(page);
    for range in Area::Spaces.ranges() {
        let mut bytes = wanted_row_bytes(rows, None);
        // Half of the range is for other bases.
        while bytes > least && total_bytes(rows, bytes, page) > range.len() / 2 {
            bytes /= 2;
        }
        if SPACE.find(&range, total_bytes(rows, bytes, page), least) {
            // Relaxed: as in `lay_out`.
            OPEN[0].store(1, Ordering::Relaxed);
            lay_out(slots, bytes, page);
            return true;
        }
    }
    let mut bytes = wanted_row_bytes(rows, map::limit_bytes()).max(least);
    while !SPACE.reserve(total_bytes(rows, bytes, page)) {
        if bytes == least {
            return false;
        }
        bytes = (bytes / 2).max(least);
    }
    lay_out(slots, bytes, page);
    true
}

/// Address space for `rows` rows of `row_bytes` bytes, and for the single parts.
fn total_bytes(rows: usize, row_bytes: usize, page: usize) -> usize {
    rows * (row_bytes + page) + once_bytes(row_bytes, page).iter().sum::<usize>()
}

fn once_bytes(row_bytes: usize, page: usize) -> [usize; ONCE_SHIFTS.len()] {
    ONCE_SHIFTS.map(|shift| (row_bytes >> shift).next_multiple_of(page))
}

/// Sets all positions, from the start of the space on, and publishes the number of slots.
fn lay_out(slots: usize, row_bytes: usize, page: usize) {
    let stride = row_bytes + page;
    // Relaxed, both: published by the Release below.
    STRIDE.store(stride, Ordering::Relaxed);
    COMMITTED.store(BLOCK_BYTES.next_multiple_of(page), Ordering::Relaxed);
    let mut start = SPACE.base() + (slots + 1) * stride;
    for (part, bytes) in ONCE.iter().zip(once_bytes(row_bytes, page)) {
        part.place(start, bytes);
        start += bytes;
    }
    // Release pairs with the Acquire in `slot_count`: a thread that reads a count sees table and
    // rows.
    SLOTS.store(slots, Ordering::Release);
}

/// Number of slots, from 1 on; 0 before the start.
#[must_use]
pub fn slot_count() -> usize {
    // Acquire pairs with the Release in `lay_out`.
    SLOTS.load(Ordering::Acquire)
}

/// Makes the first `bytes` of a single part readable and writable. Under the memory lock. False,
/// with nothing changed, when memory or space is out.
pub(crate) fn commit_once(index: usize, bytes: usize) -> bool {
    // SAFETY: it has its own range in the space; the memory lock serialises the calls.
    unsafe { ONCE[index].grow_to(&SPACE, bytes) }
}

/// Address of a row. A slot's row begins with its block, whether that is installed or not.
#[inline]
pub(crate) fn row(index: usize) -> usize {
    // Relaxed: written before the engine has started, and callers run after that.
    SPACE.base() + index * STRIDE.load(Ordering::Relaxed)
}

/// Index of the row that threads without a slot share.
#[inline]
pub(crate) fn shared() -> usize {
    // Relaxed: as in `row`.
    SLOTS.load(Ordering::Relaxed)
}

/// Largest number of bytes of a row that can be committed.
pub(crate) fn row_bytes() -> usize {
    // Relaxed: as in `row`. The page between two rows stays unused.
    STRIDE.load(Ordering::Relaxed).saturating_sub(map::page_bytes())
}

/// Number of bytes from the start of every open row that may be touched.
pub(crate) fn committed_bytes() -> usize {
    // Relaxed: grows under the slots lock, before a thread learns the offset of an object there.
    COMMITTED.load(Ordering::Relaxed)
}

#[inline]
pub(crate) fn is_open(index: usize) -> bool {
    // Acquire pairs with the Release in `open`.
    OPEN[index / 64].load(Ordering::Acquire) & (1 << (index % 64)) != 0
}

/// Makes the committed bytes of a row readable and writable. Under the slots lock. False, with
/// nothing changed, when memory is out.
pub(crate) fn open(index: usize) -> bool {
    if is_open(index) {
        return true;
    }
    // SAFETY: the row is in the space, and no part of it was taken.
    let is_taken = unsafe { SPACE.take(row(index), committed_bytes(), false) };
    if is_taken {
        // Release pairs with the Acquire in `is_open` and `open_rows`.
        OPEN[index / 64].fetch_or(1 << (index % 64), Ordering::Release);
    }
    is_taken
}

/// Makes the first `bytes` of every open row readable and writable. Under the slots lock. False,
/// with [`committed_bytes`] unchanged, when memory is out or a row is too small.
pub(crate) fn commit(bytes: usize) -> bool {
    let committed = committed_bytes();
    if bytes <= committed {
        return true;
    }
    let bytes = bytes.next_multiple_of(map::page_bytes());
    if bytes > row_bytes() {
        return false;
    }
    let more = bytes - committed;
    // SAFETY: the range is in the space, after what was taken of this row.
    let take = |index: &usize| unsafe { SPACE.take(row(*index) + committed, more, true) };
    if let Some(failed) = open_rows().find(|index| !take(index)) {
        for done in open_rows().take_while(|done| *done < failed) {
            // SAFETY: just taken, and not published.
            unsafe { SPACE.untake(row(done) + committed, more) };
        }
        return false;
    }
    // Relaxed: under the slots lock, see `committed_bytes`.
    COMMITTED.store(bytes, Ordering::Relaxed);
    true
}

pub(crate) fn open_rows() -> impl Iterator<Item = usize> {
    // Acquire pairs with the Release in `open`.
    set_bits(|word| OPEN[word].load(Ordering::Acquire), shared() + 1)
}

/// Records that a thread without a slot is about to change an object.
pub(crate) fn touch_shared() {
    // Relaxed, both: the thread that frees the object is ordered after the change, and so after
    // this.
    if !SHARED_TOUCHED.load(Ordering::Relaxed) {
        SHARED_TOUCHED.store(true, Ordering::Relaxed);
    }
}

/// The rows whose objects may hold anything other than zeros.
#[inline]
pub(crate) fn written() -> impl Iterator<Item = usize> {
    // Relaxed: as in `touch_shared`.
    open_rows().filter(|row| *row != shared() || SHARED_TOUCHED.load(Ordering::Relaxed))
}

/// Discards the kernel's pages that have a byte of `range` and lie within `around`, in bytes from
/// an address at which a page begins; they read as zeros afterwards.
///
/// # Safety
/// `around` is committed memory of an open row or a single part. No byte of it is used, unless it
/// is 0 and stays so.
pub(crate) unsafe fn discard(address: usize, range: &Range<usize>, around: &Range<usize>) {
    let page = map::page_bytes();
    let start = (range.start / page * page).max(around.start.next_multiple_of(page));
    let end = range.end.next_multiple_of(page).min(around.end / page * page);
    if start < end {
        // SAFETY: the caller's contract.
        unsafe { map::discard(address + start, end - start) };
    }
}

/// The indexes of the set bits below `bits` in an array; `words` reads a word.
#[inline]
pub(crate) fn set_bits(words: impl Fn(usize) -> usize, bits: usize) -> impl Iterator<Item = usize> {
    let (mut rest, mut next, end) = (0_usize, 0, bits.div_ceil(64));
    core::iter::from_fn(move || {
        while rest == 0 {
            if next == end {
                return None;
            }
            rest = words(next);
            next += 1;
        }
        let bit = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some((next - 1) * 64 + bit)
    })
}

const _: () = {
    assert!(ROW_BYTES_MAX.is_power_of_two() && ROW_BYTES_MIN.is_power_of_two());
    assert!(BLOCK_BYTES.is_power_of_two());
};

#[cfg(test)]
#[path = "../tests/unit/rows.rs"]
mod tests;
