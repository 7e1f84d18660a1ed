//! Per-slot blocks at one constant stride, and the table of their addresses.
//!
//! ```text
//!   table: [-2] [-1] [0] [1] [2] ...            area: row 0 | row 1 | row 2 | ...
//!            |    |   |   `----------------------------------^
//!            `----+---`--> bootstrap block
//! ```
//!
//! A slot's row begins with its block; its per-CPU objects follow.
//!
//! Who writes which memory, and when:
//!
//! | memory | written by | when |
//! |---|---|---|
//! | table entries -2, -1 | none | always the bootstrap block (threads without a slot) |
//! | table entry of a slot | the holder of the slots lock | install; drain: to bootstrap and back |
//! | words of an installed block | transactions on that slot | any time |
//! | words of a block during its drain | the drainer | after the fence after the detach |
//! | words without a cache yet | the slots lock's holder | before the word's number is published |
//! | bootstrap block | none | in read-only memory |

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use sheaves_sys::topology::CPUS_MAX;

use crate::sheaf::Cursor;

pub(crate) mod rows;

/// Words in a block.
pub const BLOCK_WORDS: usize = 4096;

/// A range of words in every block, used by one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Index in [`Region::ALL`].
    pub(crate) index: usize,
    first: usize,
    words: usize,
}

impl Region {
    /// Two words for each object cache: allocations and frees.
    pub const CACHES: Region = Region { index: 0, first: 0, words: 1920 };
    /// This crate's own words: the caches of per-CPU objects.
    pub(crate) const OWN: Region = Region { index: 1, first: 1920, words: 128 };
    /// One word for each object cache: deferred frees.
    pub const DEFERRED: Region = Region { index: 2, first: 2048, words: 960 };
    /// Words for deferred calls.
    pub const CALLS: Region = Region { index: 3, first: 3008, words: 64 };

    pub(crate) const ALL: [Region; 4] =
        [Region::CACHES, Region::OWN, Region::DEFERRED, Region::CALLS];

    /// Number of its words.
    #[must_use]
    pub const fn words(self) -> usize {
        self.words
    }

    /// Its word number `index`.
    ///
    /// # Panics
    /// At compile time or start, when the region has fewer words.
    #[inline]
    #[must_use]
    pub const fn word(self, index: usize) -> Word {
        assert!(index < self.words);
        Word::new(self.first + index)
    }
}

/// Bytes of a block, the head of each row.
pub const BLOCK_BYTES: usize = BLOCK_WORDS * 8;

/// One column of the per-slot state: the same eight bytes in every slot's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Word {
    offset: usize,
}

impl Word {
    /// Word number `index` of every block.
    ///
    /// # Panics
    /// At compile time or start, when `index` is not below [`BLOCK_WORDS`].
    #[inline]
    #[must_use]
    pub const fn new(index: usize) -> Word {
        assert!(index < BLOCK_WORDS);
        Word { offset: index * 8 }
    }

    /// The word at an offset from [`Word::offset`].
    #[inline(always)]
    #[must_use]
    pub const fn at_offset(offset: usize) -> Word {
        debug_assert!(offset < BLOCK_BYTES && offset.is_multiple_of(8));
        Word { offset }
    }

    /// Offset in a block, in bytes.
    #[inline]
    #[must_use]
    pub const fn offset(self) -> usize {
        self.offset
    }
}

/// The block of unused slots and unregistered threads: every word is both empty and full.
#[doc(hidden)]
#[derive(Debug)]
#[repr(C, align(64))]
pub struct BootstrapBlock([Cursor; BLOCK_WORDS]);

static BOOTSTRAP_BLOCK: BootstrapBlock = BootstrapBlock([Cursor::BOOTSTRAP; BLOCK_WORDS]);

/// Entries before entry 0: `cpu_id` is -1 (not initialised) or -2 (registration failed).
const ENTRIES_BEFORE: usize = 2;

/// The table of bases. It is a static, so that its address is a constant of the fast path. Only the
/// pages of existing slots are ever touched.
#[doc(hidden)]
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Table([AtomicPtr<BootstrapBlock>; ENTRIES_BEFORE + CPUS_MAX]);

/// Before the start, only the entries for threads without a slot are read.
///
/// Public for the assembly of [`crate::pop_by_size`] and [`crate::push_by_owner`] only.
#[doc(hidden)]
pub static TABLE: Table = {
    let mut entries = [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES_BEFORE + CPUS_MAX];
    let mut index = 0;
    while index < ENTRIES_BEFORE {
        entries[index] = AtomicPtr::new((&raw const BOOTSTRAP_BLOCK).cast_mut());
        index += 1;
    }
    Table(entries)
};

/// Number of slots; 0 before the start.
static SLOTS: AtomicUsize = AtomicUsize::new(0);

/// Number of slots, from 1 on; 0 before the start.
#[must_use]
pub fn slot_count() -> usize {
    // Acquire pairs with the Release in `map`: a thread that reads a count sees table and rows.
    SLOTS.load(Ordering::Acquire)
}

/// Address of the bootstrap block.
pub(crate) fn bootstrap() -> usize {
    (&raw const BOOTSTRAP_BLOCK).addr()
}

/// Fills the table and reserves the rows of `slots` slots. False when memory is out; then nothing
/// has changed.
pub(crate) fn map(slots: usize) -> bool {
    if !rows::reserve(slots) {
        return false;
    }
    // Relaxed: published by the Release below.
    for entry in &TABLE.0[ENTRIES_BEFORE..ENTRIES_BEFORE + slots] {
        entry.store((&raw const BOOTSTRAP_BLOCK).cast_mut(), Ordering::Relaxed);
    }
    // Release pairs with the Acquire in `slot_count`.
    SLOTS.store(slots, Ordering::Release);
    true
}

/// Address of the table's entry 0, for rseq critical sections.
#[inline(always)]
pub(crate) fn table() -> *const AtomicPtr<BootstrapBlock> {
    &raw const TABLE.0[ENTRIES_BEFORE]
}

/// Table entry of an existing slot, or of -1 or -2.
#[inline]
fn entry(slot: i32) -> &'static AtomicPtr<BootstrapBlock> {
    &TABLE.0[(slot + ENTRIES_BEFORE as i32) as usize]
}

/// Stores a block in a slot's table entry. Under the slots lock.
pub(crate) fn set_block(slot: usize, block: usize) {
    let block = core::ptr::with_exposed_provenance_mut(block);
    // Release pairs with the Acquire in `current_block`: the words were initialised before. Rseq
    // critical sections read the entry by an ordinary load, which x86-64 orders the same.
    TABLE.0[slot + ENTRIES_BEFORE].store(block, Ordering::Release);
}

/// Address of a slot's own block, installed or not. May be touched only while the row is open.
pub(crate) fn block(slot: usize) -> usize {
    rows::row(slot)
}

/// A word of a block, as an atomic.
#[inline]
pub(crate) fn word(block: usize, word: Word) -> &'static AtomicUsize {
    word_at(block + word.offset())
}

/// The word at an address in a row, in the bootstrap block or in a copy of a row.
#[inline]
pub(crate) fn word_at(address: usize) -> &'static AtomicUsize {
    let pointer = core::ptr::with_exposed_provenance::<AtomicUsize>(address);
    // SAFETY: 1. callers pass addresses in open rows, in copies of them or in static memory, none
    // of which is ever unmapped; 2. they are multiples of 8; 3. all access from Rust is atomic.
    unsafe { &*pointer }
}

/// The slot's block according to the table at this moment: its own, or the bootstrap block.
#[inline]
pub(crate) fn current_block(slot: i32) -> usize {
    // Acquire pairs with the Release in `set_block`.
    entry(slot).load(Ordering::Acquire).expose_provenance()
}

const _: () = {
    assert!(size_of::<BootstrapBlock>() == BLOCK_BYTES);
    assert!(BLOCK_BYTES.is_multiple_of(4096));
    let mut index = 1;
    while index < Region::ALL.len() {
        let before = Region::ALL[index - 1];
        assert!(before.first + before.words <= Region::ALL[index].first);
        assert!(Region::ALL[index].index == index);
        index += 1;
    }
    assert!(Region::CALLS.first + Region::CALLS.words <= BLOCK_WORDS);
};
