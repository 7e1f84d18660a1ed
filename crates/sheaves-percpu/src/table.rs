//! The table of the slots' blocks.
//!
//! ```text
//!   table: [-2] [-1] [0] [1] [2] ...            rows: row 0 | row 1 | row 2 | ...
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

use core::sync::atomic::{AtomicPtr, Ordering};

use sheaves_sys::topology::CPUS_MAX;

use crate::sheaf::Cursor;
use crate::word::{BLOCK_BYTES, BLOCK_WORDS};

/// The block of unused slots and unregistered threads: every word is both empty and full.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct BootstrapBlock([Cursor; BLOCK_WORDS]);

static BOOTSTRAP_BLOCK: BootstrapBlock = BootstrapBlock([Cursor::BOOTSTRAP; BLOCK_WORDS]);

/// Entries before entry 0: `cpu_id` is -1 (not initialised) or -2 (registration failed).
const ENTRIES_BEFORE: usize = 2;

/// The table of bases. It is a static, so that its address is a constant of the fast path. Only the
/// pages of existing slots are ever touched.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Table([AtomicPtr<BootstrapBlock>; ENTRIES_BEFORE + CPUS_MAX]);

/// Before the start, only the entries for threads without a slot are read.
///
/// Public for the assembly of [`crate::pop_by_size`] and [`crate::push_by_owner`] only.
pub static TABLE: Table = {
    let mut entries = [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES_BEFORE + CPUS_MAX];
    let mut index = 0;
    while index < ENTRIES_BEFORE {
        entries[index] = AtomicPtr::new((&raw const BOOTSTRAP_BLOCK).cast_mut());
        index += 1;
    }
    Table(entries)
};

pub(crate) fn bootstrap() -> usize {
    (&raw const BOOTSTRAP_BLOCK).addr()
}

/// Stores the bootstrap block in the entries of all slots. During the start.
pub(crate) fn fill(slots: usize) {
    // Relaxed: published by the Release of the number of slots in `rows::reserve`.
    for entry in &TABLE.0[ENTRIES_BEFORE..ENTRIES_BEFORE + slots] {
        entry.store((&raw const BOOTSTRAP_BLOCK).cast_mut(), Ordering::Relaxed);
    }
}

/// Address of the table's entry 0, for rseq critical sections.
#[inline(always)]
pub(crate) fn table() -> *const AtomicPtr<BootstrapBlock> {
    &raw const TABLE.0[ENTRIES_BEFORE]
}

/// Stores a block in a slot's table entry. Under the slots lock.
pub(crate) fn set_block(slot: usize, block: usize) {
    let block = core::ptr::with_exposed_provenance_mut(block);
    // Release pairs with the Acquire in `current_block`: the words were initialised before. Rseq
    // critical sections read the entry by an ordinary load, which x86-64 orders the same.
    TABLE.0[slot + ENTRIES_BEFORE].store(block, Ordering::Release);
}

/// The block of a slot, of -1 or of -2 at this moment: the slot's own, or the bootstrap block.
#[inline]
pub(crate) fn current_block(slot: i32) -> usize {
    let entry = &TABLE.0[(slot + ENTRIES_BEFORE as i32) as usize];
    // Acquire pairs with the Release in `set_block`.
    entry.load(Ordering::Acquire).expose_provenance()
}

const _: () = assert!(size_of::<BootstrapBlock>() == BLOCK_BYTES);
