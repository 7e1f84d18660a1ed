//! Sheaves: small aligned arrays of object addresses, and the cursor into them.
//!
//! They are named after SLUB's per-CPU sheaves (Linux 6.18). Caching free objects in arrays per CPU
//! is the idea of Bonwick's magazines (Bonwick, Adams, "Magazines and Vmem", 2001).
//!
//! A sheaf is 1 KiB, aligned to 1 KiB: 128 entries of 8 bytes. One of them is the *sentinel*, an
//! odd number. The entries above it can hold objects, whose addresses are even.
//!
//! ```text
//!   entry 0 ............ sentinel | a | b | c | free ... free |
//!                        (odd)                ^cursor: 3 objects
//! ```
//!
//! The *cursor* is the address of the last used entry. On the sentinel it means an empty sheaf, on
//! entry 127 a full one: `pop` needs no length, `push` no capacity. Entry 0 never holds an object:
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | 1, since entry 0 is the sentinel of a sheaf for 127 objects |
//! | 1..8 | index of the sentinel |
//! | 8..15 | of a sheaf taken by a drain: index of the entry that the cursor is on |
//! | 15..21 | of a sheaf taken by a drain: index of its word among the drained ones |
//! | 21..64 | the link: number of another sheaf, 0 for none |
//!
//! A sheaf is in one place at a time:
//!
//! | state | its cursor is | leaves by |
//! |---|---|---|
//! | in a slot | in the slot's word | `cmp_store` -> owned; a drain -> taken, or owned |
//! | taken by a drain | in entry 0 | [`Taken::next`] -> owned |
//! | owned by a thread | with the thread | `cmp_store` -> in a slot |
//!
//! Its owner may also put it into stacks and queues of its own, which use the link, and the entries
//! between entry 0 and the sentinel.

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

const CURSOR_SHIFT: u32 = 8;
const WORD_SHIFT: u32 = 15;
const LINK_SHIFT: u32 = 21;
/// A drain has at most this many words.
pub(crate) const DRAINED_WORDS_MAX: usize = 1 << (LINK_SHIFT - WORD_SHIFT);

/// Two constant sheaves, each both empty and full: the last entry is the sentinel.
#[repr(C, align(1024))]
struct Constant {
    bootstrap: [usize; Sheaf::ENTRIES],
    vacant: [usize; Sheaf::ENTRIES],
}

const EMPTY_AND_FULL: [usize; Sheaf::ENTRIES] = {
    let mut entries = [0; Sheaf::ENTRIES];
    entries[0] = (Sheaf::ENTRIES - 1) << 1 | 1;
    entries[Sheaf::ENTRIES - 1] = 1;
    entries
};

static CONSTANT: Constant = Constant { bootstrap: EMPTY_AND_FULL, vacant: EMPTY_AND_FULL };

/// A sheaf, as its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Sheaf(usize);

impl Sheaf {
    /// Size and alignment of a sheaf, in bytes.
    pub const BYTES: usize = 1024;
    /// Number of entries of a sheaf, including the sentinel.
    pub const ENTRIES: usize = Sheaf::BYTES / 8;
    /// Largest number of objects in a sheaf.
    pub const OBJECTS_MAX: usize = Sheaf::ENTRIES - 1;

    /// # Safety
    /// `address` is a multiple of [`Sheaf::BYTES`]. The memory there is used as a sheaf only. It is
    /// mapped and initialised (zeros suffice) while this value or a cursor of it is used.
    #[inline]
    pub const unsafe fn at(address: usize) -> Sheaf {
        Sheaf(address)
    }

    /// Its address.
    #[inline]
    pub const fn address(self) -> usize {
        self.0
    }

    /// The cursor on entry `index`.
    #[inline]
    pub fn cursor(self, index: usize) -> Cursor {
        debug_assert!(index < Sheaf::ENTRIES);
        Cursor::of_word(self.0 + index * 8)
    }

    /// Its cursor when it is full.
    #[inline]
    pub fn full(self) -> Cursor {
        self.cursor(Sheaf::ENTRIES - 1)
    }

    /// Index of the sentinel. A hint where the caller does not own the sheaf.
    #[inline]
    pub fn sentinel(self) -> usize {
        // Relaxed: written by the owner; other threads only take hints.
        (self.entry_0().load(Ordering::Relaxed) >> 1) & (Sheaf::ENTRIES - 1)
    }

    /// The most objects that fit. A hint where the caller does not own the sheaf.
    #[inline]
    pub fn capacity(self) -> usize {
        Sheaf::OBJECTS_MAX - self.sentinel()
    }

    /// The link, 0 for none. A hint where the caller does not own the sheaf.
    #[inline]
    pub fn link(self) -> usize {
        // Relaxed: the owner's, or a hint.
        self.entry_0().load(Ordering::Relaxed) >> LINK_SHIFT
    }

    /// # Safety
    /// The caller owns the sheaf.
    #[inline]
    pub unsafe fn set_link(self, number: usize) {
        self.set_owner_bits(number << LINK_SHIFT);
    }

    /// Makes this an empty sheaf for `objects` objects and returns its cursor, on the sentinel.
    ///
    /// # Safety
    /// The caller owns the sheaf.
    #[inline]
    pub unsafe fn format(self, objects: usize) -> Cursor {
        let sentinel = Sheaf::OBJECTS_MAX - objects;
        // SAFETY: the caller owns the sheaf.
        let entry = unsafe { self.entries(sentinel..sentinel + 1) };
        entry[0] = 1;
        // Relaxed: the caller owns the sheaf; its next owner gets it by an ordered path.
        self.entry_0().store(sentinel << 1 | 1, Ordering::Relaxed);
        self.cursor(sentinel)
    }

    /// # Safety
    /// The caller owns the sheaf and makes no second reference to these entries.
    #[inline]
    pub unsafe fn entries<'a>(self, range: Range<usize>) -> &'a mut [usize] {
        debug_assert!(range.start <= range.end && range.end <= Sheaf::ENTRIES);
        let start = core::ptr::with_exposed_provenance_mut(self.0 + range.start * 8);
        // SAFETY: the entries are inside the sheaf, mapped, initialised, and the caller's.
        unsafe { core::slice::from_raw_parts_mut(start, range.end - range.start) }
    }

    fn entry_0(self) -> &'static AtomicUsize {
        // SAFETY: mapped while this value is used, by the contract of `at`. An owner that writes to
        // entry 0 by `entries` writes the sentinel or its own link there.
        unsafe { &*core::ptr::with_exposed_provenance::<AtomicUsize>(self.0) }
    }

    /// Stores the bits above the sentinel's index.
    #[inline]
    fn set_owner_bits(self, bits: usize) {
        // Relaxed, both: the owner's; its next owner gets the sheaf by an ordered path.
        let kept = self.entry_0().load(Ordering::Relaxed) & ((1 << CURSOR_SHIFT) - 1);
        self.entry_0().store(bits | kept | 1, Ordering::Relaxed);
    }
}

/// Address of the last used entry of a sheaf; names the sheaf and the number of objects in it. A
/// word without a sheaf holds one of two constants, each of which is both empty and full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Cursor(*const usize);

// SAFETY: a number; what it points to is read and written by owners of the sheaf only.
unsafe impl Send for Cursor {}
// SAFETY: as above.
unsafe impl Sync for Cursor {}

impl Cursor {
    /// The cursor in every word of the bootstrap block: "this slot has no block".
    pub const BOOTSTRAP: Cursor = Cursor(&raw const CONSTANT.bootstrap[Sheaf::ENTRIES - 1]);
    /// The cursor of a word whose slot has a block but no sheaf in this word.
    pub const VACANT: Cursor = Cursor(&raw const CONSTANT.vacant[Sheaf::ENTRIES - 1]);

    pub(crate) const fn pointer(self) -> *mut usize {
        self.0.cast_mut()
    }

    /// The number that a word holds.
    #[inline]
    pub fn bits(self) -> usize {
        self.0.expose_provenance()
    }

    /// # Safety
    /// The number is from [`Cursor::bits`], or no method that reads what it points to is called.
    #[inline]
    pub unsafe fn from_bits(bits: usize) -> Cursor {
        Cursor::of_word(bits)
    }

    #[inline]
    pub(crate) fn of_word(bits: usize) -> Cursor {
        Cursor(core::ptr::with_exposed_provenance(bits))
    }

    /// False for the two constants.
    #[inline]
    pub fn is_sheaf(self) -> bool {
        self != Cursor::VACANT && self != Cursor::BOOTSTRAP
    }

    /// The sheaf that it points into.
    #[inline]
    pub fn sheaf(self) -> Sheaf {
        Sheaf(self.bits() & !(Sheaf::BYTES - 1))
    }

    /// Index of the entry that it is on.
    #[inline]
    pub fn index(self) -> usize {
        self.bits() % Sheaf::BYTES / 8
    }

    /// True when the cursor is on the last entry.
    #[inline]
    pub fn is_full(self) -> bool {
        (self.bits() + 8).is_multiple_of(Sheaf::BYTES)
    }

    /// True when the cursor is on the sentinel. A hint as [`Cursor::fill`] is.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.fill() == 0
    }

    /// Number of objects of the sheaf. A hint where the caller does not own the sheaf: cursor and
    /// sentinel may be of different times.
    #[inline]
    pub fn fill(self) -> usize {
        self.index().saturating_sub(self.sheaf().sentinel())
    }

    /// The cursor `count` entries lower: when the last `count` objects are gone.
    #[inline]
    pub fn down(self, count: usize) -> Cursor {
        Cursor::of_word(self.bits() - 8 * count)
    }

    /// The cursor `count` entries higher: when `count` objects were written to [`Cursor::room`].
    #[inline]
    pub fn up(self, count: usize) -> Cursor {
        Cursor::of_word(self.bits() + 8 * count)
    }

    /// The last object; the sentinel when the sheaf is empty.
    ///
    /// # Safety
    /// The caller owns the sheaf.
    #[inline]
    pub unsafe fn last(self) -> usize {
        // SAFETY: on an entry of a sheaf that the caller owns.
        unsafe { self.0.read() }
    }

    /// All objects of the sheaf.
    ///
    /// # Safety
    /// As for [`Sheaf::entries`].
    #[inline]
    pub unsafe fn objects<'a>(self) -> &'a mut [usize] {
        let first = self.sheaf().sentinel() + 1;
        // SAFETY: the same contract.
        unsafe { self.sheaf().entries(first..self.index() + 1) }
    }

    /// The unused entries above the cursor.
    ///
    /// # Safety
    /// As for [`Sheaf::entries`].
    #[inline]
    pub unsafe fn room<'a>(self) -> &'a mut [usize] {
        // SAFETY: the same contract.
        unsafe { self.sheaf().entries(self.index() + 1..Sheaf::ENTRIES) }
    }

    /// Writes an object above the cursor and returns the new cursor.
    ///
    /// # Safety
    /// The caller owns the sheaf, which is not full.
    #[inline]
    #[must_use]
    pub unsafe fn push(self, object: usize) -> Cursor {
        debug_assert!(!self.is_full());
        let above = self.up(1);
        // SAFETY: the entry above the cursor is in the sheaf, which the caller owns.
        unsafe { above.0.cast_mut().write(object) };
        above
    }
}

/// The object in an entry that `pop` read; `None` for a sentinel.
#[inline(always)]
pub(crate) fn object_in(entry: usize) -> Option<usize> {
    (entry & 1 == 0).then_some(entry)
}

/// A list of sheaves, as those that a drain has taken, which are linked by their entries 0. The
/// link is a sheaf's address, divided by [`Sheaf::BYTES`]. The owner of this list owns the sheaves.
#[derive(Debug)]
#[must_use]
pub struct Taken {
    first: Option<Sheaf>,
}

impl Taken {
    pub(crate) const fn new() -> Taken {
        Taken { first: None }
    }

    /// Adds the sheaf that was in word number `word` of the drain.
    ///
    /// # Safety
    /// The caller owns the sheaf, and gives it up.
    pub(crate) unsafe fn add(&mut self, word: usize, cursor: Cursor) {
        debug_assert!(word < DRAINED_WORDS_MAX);
        let (sheaf, index) = (cursor.sheaf(), cursor.index());
        let next = self.first.map_or(0, |next| next.0 / Sheaf::BYTES);
        sheaf.set_owner_bits(next << LINK_SHIFT | word << WORD_SHIFT | index << CURSOR_SHIFT);
        self.first = Some(sheaf);
    }
}

impl Iterator for Taken {
    /// Index of the word among the drained ones, and the cursor. The caller owns the sheaf.
    type Item = (usize, Cursor);

    fn next(&mut self) -> Option<(usize, Cursor)> {
        let sheaf = self.first?;
        // Relaxed: the list owns the sheaf.
        let entry = sheaf.entry_0().load(Ordering::Relaxed);
        let next = entry >> LINK_SHIFT;
        self.first = (next != 0).then_some(Sheaf(next * Sheaf::BYTES));
        let word = entry >> WORD_SHIFT & (DRAINED_WORDS_MAX - 1);
        Some((word, sheaf.cursor(entry >> CURSOR_SHIFT & (Sheaf::ENTRIES - 1))))
    }
}

const _: () = {
    assert!(align_of::<Constant>() == Sheaf::BYTES);
    assert!(size_of::<Constant>() == 2 * Sheaf::BYTES);
    assert!(Sheaf::ENTRIES == 1 << (WORD_SHIFT - CURSOR_SHIFT));
    assert!(usize::BITS == 64);
};
