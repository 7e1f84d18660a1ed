//! Per-slot blocks, one constant stride apart, and the table that leads to them.
//!
//! ```text
//!   table: [-2] [-1] [0] [1] [2] ...            area: block 0 | block 1 | block 2 | ...
//!            |    |   |   `------------------------------------^
//!            `----+---`--> bootstrap block
//! ```
//!
//! Who may write what, and when:
//!
//! | memory | written by | when |
//! |---|---|---|
//! | table entries -2, -1 | nobody | always the bootstrap block (threads without a slot) |
//! | table entry of a slot | the holder of the slots lock | install: bootstrap -> block; drain: block -> bootstrap -> block |
//! | words of an installed block | transactions on that slot | any time |
//! | words of a block during its drain | the drainer | after the fence that follows bootstrap in the table |
//! | words of no cache yet | the holder of the slots lock | before the word's number is handed out |
//! | bootstrap block | nobody | in read-only memory |

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::sheaf::{BOOTSTRAP_CURSOR, ConstantCursor};

/// Words in a block.
pub const WORDS: usize = 2048;
/// Bytes of a block, and the distance between the blocks of neighbouring slots.
pub const BLOCK_BYTES: usize = WORDS * 8;

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
    /// At compile time or start, when `index` is not below [`WORDS`].
    #[inline]
    #[must_use]
    pub const fn new(index: usize) -> Word {
        assert!(index < WORDS);
        Word { offset: index * 8 }
    }

    /// Offset in a block, in bytes.
    #[inline]
    #[must_use]
    pub const fn offset(self) -> usize {
        self.offset
    }
}

/// The block that unused slots and unregistered threads see: every word both empty and full.
#[repr(C, align(64))]
struct BootstrapBlock([ConstantCursor; WORDS]);

static BOOTSTRAP_BLOCK: BootstrapBlock = BootstrapBlock([BOOTSTRAP_CURSOR; WORDS]);

/// Entries before entry 0: `cpu_id` is -1 (not initialised) or -2 (registration failed).
const ENTRIES_BEFORE: usize = 2;

/// The table before the start: no slot at all.
#[repr(transparent)]
pub(crate) struct StartTable([*const BootstrapBlock; ENTRIES_BEFORE]);

// SAFETY: the addresses are those of immutable memory.
unsafe impl Sync for StartTable {}

pub(crate) static START_TABLE: StartTable =
    StartTable([&raw const BOOTSTRAP_BLOCK; ENTRIES_BEFORE]);

/// Number of slots; 0 before the start.
static SLOTS: AtomicUsize = AtomicUsize::new(0);
/// Address of entry 0 of the table; 0 before the start.
static TABLE: AtomicUsize = AtomicUsize::new(0);
/// Address of block 0; 0 before the start.
static AREA: AtomicUsize = AtomicUsize::new(0);

/// Number of slots, from 1 on; 0 before the start.
#[must_use]
pub fn slot_count() -> usize {
    // Acquire pairs with the Release in `map`: whoever sees a count sees table and area.
    SLOTS.load(Ordering::Acquire)
}

/// Address of the bootstrap block.
pub(crate) fn bootstrap() -> usize {
    (&raw const BOOTSTRAP_BLOCK).addr()
}

/// Address of table entry 0.
pub(crate) fn table_address() -> usize {
    // Relaxed: callers run after `slot_count` or the engine's mode told them of the start.
    TABLE.load(Ordering::Relaxed)
}

/// Maps table and area for `slots` slots. False when there is no memory; then nothing changed.
pub(crate) fn map(slots: usize) -> bool {
    let entries = slots + ENTRIES_BEFORE;
    let Some(table) = sheaves_sys::map::anywhere(entries * 8) else { return false };
    let Some(area) = sheaves_sys::map::anywhere(slots * BLOCK_BYTES) else {
        // SAFETY: mapped above and not published.
        unsafe { sheaves_sys::map::unmap(table, entries * 8) };
        return false;
    };
    // Relaxed, both: published by the Release below.
    TABLE.store(table + ENTRIES_BEFORE * 8, Ordering::Relaxed);
    AREA.store(area, Ordering::Relaxed);
    for index in 0..entries {
        // Relaxed: published by the Release below.
        word_at(table + index * 8).store(bootstrap(), Ordering::Relaxed);
    }
    // Release pairs with the Acquire in `slot_count`.
    SLOTS.store(slots, Ordering::Release);
    true
}

/// Table entry of a slot. Precondition, kept by all callers in this crate: `slot` is below the
/// count of slots, or -1, or -2.
#[inline]
pub(crate) fn table_entry(slot: i32) -> &'static AtomicUsize {
    word_at(table_address().wrapping_add_signed(slot as isize * 8))
}

/// Address of a slot's own block, installed or not.
pub(crate) fn block(slot: usize) -> usize {
    // Relaxed: as in `table_address`.
    AREA.load(Ordering::Relaxed) + slot * BLOCK_BYTES
}

/// A word of a block, as an atomic.
#[inline]
pub(crate) fn word(block: usize, word: Word) -> &'static AtomicUsize {
    word_at(block + word.offset())
}

/// The word at an address inside the table, the area or the bootstrap block.
#[inline]
fn word_at(address: usize) -> &'static AtomicUsize {
    let pointer = core::ptr::with_exposed_provenance::<AtomicUsize>(address);
    // SAFETY: 1. callers pass addresses inside memory that `map` made or static memory, which is
    // never unmapped; 2. they are multiples of 8; 3. all access from Rust is atomic.
    unsafe { &*pointer }
}

/// The slot's block as the table has it now: its own, or the bootstrap block.
#[inline]
pub(crate) fn current_block(slot: i32) -> usize {
    // Acquire pairs with the Release of an install: the words were initialised before.
    table_entry(slot).load(Ordering::Acquire)
}

const _: () = {
    assert!(size_of::<BootstrapBlock>() == BLOCK_BYTES);
    assert!(BLOCK_BYTES.is_multiple_of(4096));
};
