//! Size classes: maps a size to its cache.
//!
//! There is a class for each multiple of 16 bytes up to 128, then there are eight per doubling up
//! to 32 KiB. So a step above 128 bytes is at most 12.5 %. All sizes are multiples of 16, so one
//! load from a table with an entry per 16 bytes (4 KiB) gives the result.
//!
//! Middle sizes, up to 1 MiB, have few classes: what a block does not use of its class is never
//! touched. From 64 KiB on their objects are alone in their slabs, which are multiples of 64 KiB.
//!
//! Objects of 1 KiB and its multiples have a stride that is not a multiple of 1 KiB: this colouring
//! (Bonwick 1994) spreads them over the sets of the CPU's caches. Alignments of 1 KiB and above
//! have classes of their own.
//!
//! In a hardened process the last 8 bytes of each object are a canary. So a request takes the class
//! of a size that is 16 bytes larger, from level 2 on 48 bytes. Blocks of size 0 have a class of
//! their own.

use core::sync::atomic::{AtomicU16, Ordering};

use sheaves_percpu::internal::{InPage, TABLE, TABLE_MARK, Word};
use sheaves_slab::internal::shape::{CANARY_BYTES, ZONE_BYTES, stride_for};
use sheaves_slab::internal::window::GRANULE_BYTES;
use sheaves_slab::internal::{CacheId, checking, chunk};

/// The largest size that a class of the fast path serves, in bytes.
pub const SMALL_BYTES_MAX: usize = 32 << 10;
/// The largest size that a class serves, in bytes.
pub const MIDDLE_BYTES_MAX: usize = 1 << 20;
/// Every class size is a multiple of this, and every object is aligned to it at least.
pub const QUANTUM_BYTES: usize = 16;

/// Up to this alignment, a class whose size is a multiple of the alignment is aligned to it.
const LINE_BYTES: usize = 64;

/// Number of classes of 16, 32, ... 128 bytes.
const FINE: usize = 8;
/// Number of classes per doubling above 128 bytes.
const PER_DOUBLING: usize = 8;
/// Doublings from 128 bytes to [`SMALL_BYTES_MAX`].
const DOUBLINGS: usize = (SMALL_BYTES_MAX / 128).trailing_zeros() as usize;

/// Number of classes for ordinary requests.
pub const PLAIN: usize = FINE + PER_DOUBLING * DOUBLINGS;
/// Size of the smallest class that is for alignment, in bytes.
const ALIGNED_BYTES_MIN: usize = 1024;
/// Number of the first middle class.
const MIDDLE: usize = PLAIN + (SMALL_BYTES_MAX / ALIGNED_BYTES_MIN).ilog2() as usize + 1;
/// Sizes of the middle classes, in KiB.
const MIDDLE_KIB: [usize; 15] =
    [40, 48, 56, 64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024];
/// All of them are multiples of this.
const MIDDLE_STEP_BYTES: usize = 8 << 10;
/// The smallest middle class for each size, in [`MIDDLE_STEP_BYTES`] rounded up.
static MIDDLE_OF: [u8; MIDDLE_BYTES_MAX / MIDDLE_STEP_BYTES + 1] = {
    let mut classes = [0; MIDDLE_BYTES_MAX / MIDDLE_STEP_BYTES + 1];
    let (mut steps, mut class) = (0, MIDDLE);
    while steps < classes.len() {
        if steps * MIDDLE_STEP_BYTES > bytes_of_class(class) {
            class += 1;
        }
        classes[steps] = class as u8;
        steps += 1;
    }
    classes
};
/// Number of classes: the ordinary ones, then one for each power of two from 1 KiB to 32 KiB whose
/// objects are aligned to their size, then those of middle sizes.
pub const CLASSES: usize = MIDDLE + MIDDLE_KIB.len();
/// The class for blocks of size 0 in a hardened process: they can be neither read nor written.
pub(crate) const EMPTY_BLOCKS: usize = CLASSES;

/// Two words that close the fast paths which allocate when a tool writes 0 to them, which one can
/// do to a process that never takes a slow path: the next call answers what the tool has requested.
#[must_use]
pub fn closing_words() -> usize {
    (&raw const TABLE.fast_bytes_end).addr()
}

/// What the file of the program or library has up to the end of the [`closing_words`]: a mark, two
/// other words, and these. A tool that writes 0 to them restores what the file has.
pub const CLOSING_WORDS_IN_FILE: [u64; 5] = [TABLE_MARK, 0, 0, 0, 0];

/// In a slow path, once the heap has started: opens the fast path again if a tool has closed it,
/// and answers the tool.
#[inline]
pub(crate) fn reopen_fast_path() {
    // Relaxed: what it leads to can be done at any time after the start.
    if TABLE.fast_bytes_end.load(Ordering::Relaxed) == 0 {
        open_fast_path();
        chunk::do_due_after_alloc();
    }
}

/// Enables the fast path. The engine has started and the words of all classes are prepared.
#[cold]
pub(crate) fn open_fast_path() {
    // From level 2 on each allocation writes a zone: see `block::pop_hardened`.
    let bytes_max = if checking::is_exact() { 0 } else { SMALL_BYTES_MAX };
    // Callers that know a layout allocate from main words, which are vacant in hardened processes.
    let layout_end = if checking::is_hardened() { 0 } else { SMALL_BYTES_MAX + 1 };
    // Release, both, pairs with the Acquire loads of the limits, here and in the bodies of the C
    // functions: a thread that finds them raised finds the access and the table, too.
    TABLE.fast_bytes_end.store(bytes_max + 1, Ordering::Release);
    TABLE.layout_bytes_end.store(layout_end, Ordering::Release);
}

/// Switches `malloc` to the words and classes of a hardened process. Before the fast path is open.
pub(crate) fn harden() {
    for (quanta, word) in WORDS.iter().enumerate() {
        let class = of_request(quanta * QUANTUM_BYTES, QUANTUM_BYTES);
        let stock = class.map(|class| CacheId::of_class(class).stock().offset() as u16);
        // Relaxed: published by the Release in `open_fast_path`.
        word.store(stock.unwrap_or(0), Ordering::Relaxed);
    }
}

/// Switches `malloc` to the other word of each class, from which objects are allocated while
/// samples are drawn, or back. Not in a hardened process, which has other words.
pub(crate) fn draw_samples(is_drawn: bool) {
    if checking::is_hardened() {
        return;
    }
    for (quanta, main) in MAIN_WORDS.iter().enumerate() {
        let id = CacheId::of_main(Word::at_offset(usize::from(*main)));
        let word = if is_drawn { id.spare() } else { id.main() };
        // Relaxed: either word will do. With the old one, a block is allocated without a draw, or
        // with one that is no longer needed.
        WORDS[quanta].store(word.offset() as u16, Ordering::Relaxed);
    }
}

/// Bytes that the user of an object of a class may use.
pub(crate) fn usable_bytes(class: usize) -> usize {
    let canary_bytes = if checking::is_hardened() { CANARY_BYTES } else { 0 };
    SIZES.get(class).map_or(0, |size| *size as usize - canary_bytes)
}

/// True when a request gets a block of the class [`EMPTY_BLOCKS`].
pub(crate) fn is_zero_sized(size: usize, align: usize) -> bool {
    size == 0 && align <= QUANTUM_BYTES && checking::is_hardened()
}

/// The class for a request of any size and alignment; `None` for a mapping of its own.
pub(crate) fn of_request(size: usize, align: usize) -> Option<usize> {
    if is_zero_sized(size, align) {
        return Some(EMPTY_BLOCKS);
    }
    let room = if checking::is_hardened() {
        size.wrapping_neg() % QUANTUM_BYTES + QUANTUM_BYTES
    } else {
        0
    };
    let size = size + room + if checking::is_exact() { ZONE_BYTES } else { 0 };
    let class = of_layout(size, align).or_else(|| of_middle(size, align));
    class.filter(|class| SIZES[*class] as usize <= class_bytes_max())
}

/// The smallest middle class for what is not for the fast path.
#[inline]
pub(crate) fn of_middle(size: usize, align: usize) -> Option<usize> {
    let first = *MIDDLE_OF.get(size.div_ceil(MIDDLE_STEP_BYTES))?;
    (usize::from(first)..CLASSES).find(|class| is_aligned(*class, align))
}

/// Size of the largest class that is used. In a hardened process larger blocks lie between
/// inaccessible pages, as mappings of their own: from level 2 on all that would be alone in their
/// slabs. At level 1 those are cleared and checked, since page faults take up to ten times as long.
pub(crate) fn class_bytes_max() -> usize {
    if checking::is_exact() {
        GRANULE_BYTES - 1
    } else if checking::is_hardened() {
        MIDDLE_BYTES_MAX / 4
    } else {
        MIDDLE_BYTES_MAX
    }
}

/// Size of each class, in bytes.
pub static SIZES: [u32; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        sizes[class] = bytes_of_class(class) as u32;
        class += 1;
    }
    sizes
};

const fn bytes_of_class(class: usize) -> usize {
    if class >= MIDDLE {
        return MIDDLE_KIB[class - MIDDLE] << 10;
    }
    if class >= PLAIN {
        return ALIGNED_BYTES_MIN << (class - PLAIN);
    }
    if class < FINE {
        return (class + 1) * QUANTUM_BYTES;
    }
    let (doubling, step) = ((class - FINE) / PER_DOUBLING, (class - FINE) % PER_DOUBLING);
    (128 << doubling) / PER_DOUBLING * (PER_DOUBLING + 1 + step)
}

/// The alignment that a class is created with.
pub(crate) const fn align_of_class(class: usize) -> usize {
    if class < PLAIN || class >= MIDDLE { QUANTUM_BYTES } else { bytes_of_class(class) }
}

/// True when every object of a class is at a multiple of `align`, a power of two.
#[inline]
fn is_aligned(class: usize, align: usize) -> bool {
    align.trailing_zeros() <= u32::from(ALIGN_SHIFTS[class])
}

/// The alignment of the objects of each class, as its logarithm.
static ALIGN_SHIFTS: [u8; CLASSES] = {
    let mut shifts = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let size = bytes_of_class(class);
        let multiple_of = if size < GRANULE_BYTES {
            stride_for(size, align_of_class(class)).unwrap()
        } else if size.is_power_of_two() {
            size
        } else {
            GRANULE_BYTES
        };
        shifts[class] = multiple_of.trailing_zeros() as u8;
        class += 1;
    }
    shifts
};

/// For each size, in quanta rounded up: the offset of the word from which `malloc` allocates. That
/// of the class's main sheaf, unless [`harden`] or [`draw_samples`] replaces it.
#[doc(hidden)]
pub static WORDS: InPage<[AtomicU16; MAIN_WORDS.len()]> = {
    let mut words = [const { AtomicU16::new(0) }; MAIN_WORDS.len()];
    let mut quanta = 0;
    while quanta < words.len() {
        words[quanta] = AtomicU16::new(MAIN_WORDS[quanta]);
        quanta += 1;
    }
    InPage::new(words)
};

/// For each size, in quanta rounded up: the offset of the word of its class's main sheaf. For
/// callers that know a layout, often at compile time.
static MAIN_WORDS: [u16; SMALL_BYTES_MAX / QUANTUM_BYTES + 1] = {
    let mut words = [0; SMALL_BYTES_MAX / QUANTUM_BYTES + 1];
    let (mut quanta, mut class) = (0, 0);
    while quanta < words.len() {
        if quanta * QUANTUM_BYTES > bytes_of_class(class) {
            class += 1;
        }
        words[quanta] = CacheId::of_class(class).main().offset() as u16;
        quanta += 1;
    }
    words
};

/// The class for a size of at most [`SMALL_BYTES_MAX`]; size 0 gets the smallest.
///
/// # Panics
/// If `size` is larger.
#[inline(always)]
#[must_use]
pub fn of_size(size: usize) -> usize {
    CacheId::of_main(main_of_size(size)).class()
}

#[inline(always)]
fn main_of_size(size: usize) -> Word {
    assert!(size <= SMALL_BYTES_MAX);
    // SAFETY: just tested.
    let offset = *unsafe { MAIN_WORDS.get_unchecked(quanta(size)) };
    Word::at_offset(usize::from(offset))
}

/// The per-CPU word from which a size is allocated.
///
/// # Safety
/// `size` is at most [`SMALL_BYTES_MAX`].
#[inline(always)]
pub(crate) unsafe fn word_of_size_unchecked(size: usize) -> Word {
    debug_assert!(size <= SMALL_BYTES_MAX);
    // SAFETY: the table covers every size up to the limit.
    let word = unsafe { WORDS.get_unchecked(quanta(size)) };
    // Relaxed: see `open_fast_path`.
    Word::at_offset(usize::from(word.load(Ordering::Relaxed)))
}

/// A size in quanta, rounded up.
#[inline(always)]
fn quanta(size: usize) -> usize {
    // Not `div_ceil`, which costs five instructions: it does not know that nothing overflows.
    (size + (QUANTUM_BYTES - 1)) >> QUANTUM_BYTES.trailing_zeros()
}

/// The smallest class of the fast path whose objects hold `size` bytes and are at multiples of
/// `align`, a power of two. Objects are at multiples of their stride from the start of a slab,
/// which is aligned to 64 KiB.
#[inline]
#[must_use]
pub fn of_layout(size: usize, align: usize) -> Option<usize> {
    main_of_layout(size, align).map(|word| CacheId::of_main(word).class())
}

/// The word of the main sheaf of [`of_layout`].
#[inline(always)]
pub(crate) fn main_of_layout(size: usize, align: usize) -> Option<Word> {
    if size > SMALL_BYTES_MAX {
        return None;
    }
    if align > LINE_BYTES {
        return of_wide_alignment(size, align).map(|class| CacheId::of_class(class).main());
    }
    // A size that is a multiple of the alignment gets a class that is one, too: see the assertions
    // below.
    let size = if align > QUANTUM_BYTES { rounded_up(size.max(align), align) } else { size };
    Some(main_of_size(size))
}

/// A size, rounded up to a multiple of a power of two. Not `next_multiple_of`, which divides.
#[inline(always)]
const fn rounded_up(size: usize, align: usize) -> usize {
    (size + (align - 1)) & !(align - 1)
}

/// [`of_layout`] for alignments above a cache line.
fn of_wide_alignment(size: usize, align: usize) -> Option<usize> {
    if align > SMALL_BYTES_MAX {
        return None;
    }
    let size = rounded_up(size.max(align), align);
    let own_bytes = size.next_power_of_two().max(ALIGNED_BYTES_MIN);
    let mut plain = of_size(size)..of_size(own_bytes);
    let plain = plain.find(|class| is_aligned(*class, align));
    Some(plain.unwrap_or(PLAIN + (own_bytes / ALIGNED_BYTES_MIN).ilog2() as usize))
}

/// True when each object of a class is alone in its slab.
pub(crate) fn is_alone(class: usize) -> bool {
    // Not EMPTY_BLOCKS.
    SIZES.get(class).is_some_and(|size| *size as usize >= GRANULE_BYTES)
}

const _: () = {
    assert!(bytes_of_class(PLAIN - 1) == SMALL_BYTES_MAX);
    assert!(bytes_of_class(MIDDLE - 1) == SMALL_BYTES_MAX);
    assert!(bytes_of_class(CLASSES - 1) == MIDDLE_BYTES_MAX);
    assert!(EMPTY_BLOCKS < sheaves_slab::internal::CLASSES_MAX);
    let mut class = 1;
    while class < PLAIN {
        let (below, size) = (bytes_of_class(class - 1), bytes_of_class(class));
        assert!(size > below && size.is_multiple_of(QUANTUM_BYTES));
        // At most 12.5 % above 128 bytes.
        assert!(size <= 128 || (size - below) * 8 <= below);
        // The table sends every size up to here to this class, and no larger one.
        let word = CacheId::of_class(class).main().offset() as u16;
        assert!(MAIN_WORDS[size / QUANTUM_BYTES] == word);
        assert!(MAIN_WORDS[below / QUANTUM_BYTES + 1] == word);
        // A step between classes is a multiple of 64 bytes, or no multiple of 64 is skipped.
        let step = size - below;
        assert!(step.is_multiple_of(LINE_BYTES) || LINE_BYTES.is_multiple_of(step));
        class += 1;
    }
};

#[cfg(test)]
#[path = "../tests/unit/classes.rs"]
mod tests;
