//! The words that fast paths read: the offsets of rseq, the bounds of the heap, and the table of
//! the slots' blocks.
//!
//! ```text
//!   table: [-2] [-1] [0] [1] [2] ...            rows: row 0 | row 1 | row 2 | ...
//!            |    |   |   `----------------------------------^
//!            `----+---`--> bootstrap block
//! ```
//!
//! A slot's row begins with its block; its per-CPU objects follow.
//!
//! | memory | written by | when |
//! |---|---|---|
//! | table entries -2, -1 | none | always the bootstrap block (threads without a slot) |
//! | table entry of a slot | the holder of the slots lock | install; drain: to bootstrap and back |
//! | entry of a slot in [`SOURCES`] | the holder of the slots lock | as above; [`set_source`] |
//! | words of an installed block | transactions on that slot | any time |
//! | words of a block during its drain | the drainer | after the fence after the detach |
//! | words without a cache yet | the slots lock's holder | before the word's number is published |
//! | words of the bootstrap block | the slots lock's holder | before a word's number is published |

use core::mem::offset_of;
use core::ops::Deref;
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering};

use sheaves_sys::topology::CPUS_MAX;

use crate::sheaf::Cursor;
use crate::word::{BLOCK_BYTES, BLOCK_WORDS, Region, Word};

/// The block of unused slots and unregistered threads: every initialised word is both empty and
/// full. The others are null, and so are all of them before the start: a static pointer costs the
/// start of each program a relocation. It begins with a page, so that those of a region are on one.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct BootstrapBlock([AtomicPtr<usize>; BLOCK_WORDS]);

static BOOTSTRAP_BLOCK: BootstrapBlock =
    BootstrapBlock([const { AtomicPtr::new(core::ptr::null_mut()) }; BLOCK_WORDS]);

/// Initialises a word of the bootstrap block, before its number is published.
pub(crate) fn init_bootstrap(word: Word) {
    // Relaxed: nothing uses the word before.
    BOOTSTRAP_BLOCK.0[word.offset() / 8].store(Cursor::BOOTSTRAP.pointer(), Ordering::Relaxed);
}

/// Entries before entry 0: `cpu_id` is -1 (not initialised) or -2 (registration failed).
const ENTRIES_BEFORE: usize = 2;

/// Bytes before the value of an [`InPage`]: 13 cache lines.
pub const IN_PAGE: usize = 13 * 64;
/// Is right before [`TABLE`], also in the file of the program or library: a tool that writes to the
/// limits there knows by it that they are there.
pub const TABLE_MARK: u64 = 0xbd4a_faee_901f_d09e;

/// A static that each call of `malloc` or `free` reads, away from the beginning of its page. A
/// level-1 cache has one set, of eight or twelve ways, for the same line of every page. Blocks of a
/// page and more begin with their first line: a program that writes to the beginnings of eight
/// pages would displace a value that is there. 13 is odd, since most small blocks begin at a
/// multiple of 128 bytes.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct InPage<T> {
    before: [u8; IN_PAGE - 8],
    mark: u64,
    value: T,
}

impl<T> InPage<T> {
    /// Places a value.
    pub const fn new(value: T) -> InPage<T> {
        InPage::behind(0, value)
    }

    /// Places a value right behind a mark.
    const fn behind(mark: u64, value: T) -> InPage<T> {
        InPage { before: [0; IN_PAGE - 8], mark, value }
    }
}

impl<T> Deref for InPage<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

/// The table of bases. It is a static, so that its address is a constant of the fast path. Only the
/// pages of existing slots are ever touched.
///
/// Besides the table of sizes, the fields before the entries are all else that `malloc` and `free`
/// read of the program's data. They are on one cache line, next to that of the first slots, and on
/// one page with all entries that a start fills where the kernel's masks have 256 CPUs. Handles of
/// caches and callers with a layout read `SOURCES` in place of the entries.
#[derive(Debug)]
#[repr(C)]
pub struct Table {
    /// The fields of the only [`Access`](crate::Access), both 0 before the start.
    pub(crate) rseq_cs: AtomicIsize,
    pub(crate) slot: AtomicIsize,
    /// Sizes below this are served by the fast path of `malloc`; 0 until the heap has started.
    pub fast_bytes_end: AtomicUsize,
    /// The same for callers that know a layout. Behind the other one: a tool closes both at once.
    pub layout_bytes_end: AtomicUsize,
    /// Address of the heap's window. Its value before the start is too far from every user address:
    /// none is within the heap, whether a thread reads the old or new `heap_bytes_end`. In a
    /// hardened process it stays: each free takes the slow path.
    pub window: AtomicUsize,
    /// Bytes of the window, from its address, whose granules may be in use.
    pub heap_bytes_end: AtomicUsize,
    entries: [AtomicPtr<BootstrapBlock>; ENTRIES_BEFORE + CPUS_MAX],
}

/// Before the start, only the entries for threads without a slot are read.
pub static TABLE: InPage<Table> = {
    let mut entries = [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES_BEFORE + CPUS_MAX];
    entries[0] = AtomicPtr::new((&raw const BOOTSTRAP_BLOCK).cast_mut());
    entries[1] = AtomicPtr::new((&raw const BOOTSTRAP_BLOCK).cast_mut());
    InPage::behind(
        TABLE_MARK,
        Table {
            rseq_cs: AtomicIsize::new(0),
            slot: AtomicIsize::new(0),
            fast_bytes_end: AtomicUsize::new(0),
            layout_bytes_end: AtomicUsize::new(0),
            window: AtomicUsize::new(1 << 63),
            heap_bytes_end: AtomicUsize::new(0),
            entries,
        },
    )
};

/// A second table of bases, for transactions that take objects from the first of two words, or from
/// the second one: then each base is that of the block's word 1. Empty before the start. On cache
/// lines of its own.
#[repr(align(128))]
struct Sources([AtomicPtr<BootstrapBlock>; ENTRIES_BEFORE + CPUS_MAX]);

static SOURCES: Sources =
    Sources([const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES_BEFORE + CPUS_MAX]);

/// From a block to its base in [`SOURCES`], in bytes: 0, or 8 for the second words.
static SOURCE_SHIFT: AtomicUsize = AtomicUsize::new(0);

/// Byte of entry 0.
pub const ENTRY_0: usize = offset_of!(Table, entries) + 8 * ENTRIES_BEFORE;

#[inline]
pub(crate) fn bootstrap() -> usize {
    (&raw const BOOTSTRAP_BLOCK).expose_provenance()
}

/// Initialises the bootstrap block, and stores it in the entries of all slots, and of all numbers
/// that the kernel may give to threads in place of a slot. During the start.
pub(crate) fn fill(slots: usize) {
    Region::ALL.iter().flat_map(|region| region.words_at_start()).for_each(init_bootstrap);
    // Relaxed: published by the Release of the number of slots in `rows::reserve`.
    let sources = &SOURCES.0[..ENTRIES_BEFORE + slots];
    for entry in TABLE.entries[ENTRIES_BEFORE..ENTRIES_BEFORE + slots].iter().chain(sources) {
        entry.store((&raw const BOOTSTRAP_BLOCK).cast_mut(), Ordering::Relaxed);
    }
}

/// Address of the table's entry 0, for rseq critical sections.
#[cfg(not(miri))]
#[inline(always)]
pub(crate) fn table() -> *const AtomicPtr<BootstrapBlock> {
    &raw const TABLE.entries[ENTRIES_BEFORE]
}

/// Likewise of [`SOURCES`].
#[cfg(not(miri))]
#[inline(always)]
pub(crate) fn sources() -> *const AtomicPtr<BootstrapBlock> {
    &raw const SOURCES.0[ENTRIES_BEFORE]
}

/// Stores a block in a slot's entries of both tables. Under the slots lock.
pub(crate) fn set_block(slot: usize, block: usize) {
    // Relaxed: changes under the slots lock.
    let shift = if block == bootstrap() { 0 } else { SOURCE_SHIFT.load(Ordering::Relaxed) };
    let pointer = core::ptr::with_exposed_provenance_mut;
    // Release, both: the one of `entries` pairs with the Acquire in `current_block`: the words were
    // initialised before. Rseq critical sections read an entry by an ordinary load, on which the
    // addresses of all further loads and stores in the block depend.
    SOURCES.0[slot + ENTRIES_BEFORE].store(pointer(block + shift), Ordering::Release);
    TABLE.entries[slot + ENTRIES_BEFORE].store(pointer(block), Ordering::Release);
}

/// Makes the second of two words the source, or the first. Under the slots lock; the caller stores
/// all blocks again.
pub(crate) fn set_source(is_second: bool) {
    // Relaxed: as in `set_block`.
    SOURCE_SHIFT.store(8 * usize::from(is_second), Ordering::Relaxed);
}

/// The block of slot number `slot` at this moment; the bootstrap block for -1, -2 and no block.
#[inline]
pub(crate) fn current_block(slot: i32) -> usize {
    let entry = &TABLE.entries[(slot + ENTRIES_BEFORE as i32) as usize];
    // Acquire pairs with the Release in `set_block`.
    entry.load(Ordering::Acquire).expose_provenance()
}

const _: () = {
    assert!(size_of::<BootstrapBlock>() == BLOCK_BYTES);
    assert!(ENTRY_0 == 64 && offset_of!(Table, slot) == 8);
    assert!(offset_of!(Table, fast_bytes_end) == 16 && offset_of!(Table, layout_bytes_end) == 24);
    assert!(offset_of!(Table, heap_bytes_end) == offset_of!(Table, window) + 8);
    assert!(offset_of!(InPage<Table>, value) == IN_PAGE);
};
