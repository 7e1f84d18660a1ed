//! Sheaves: small aligned arrays of object addresses, and the cursor into them.
//!
//! The name is that of SLUB's per-CPU sheaves (Linux 6.18). The idea of caching free objects in
//! arrays per CPU is that of Bonwick's magazines (2001).
//!
//! A sheaf is 1 KiB, aligned to 1 KiB: 128 entries of 8 bytes. One of them is the *sentinel*: an
//! odd number, whose bits above bit 0 may link to another sheaf. The entries above it, up to the
//! end, can hold objects, whose addresses are even. A sheaf for fewer than 127 objects has its
//! sentinel higher up.
//!
//! ```text
//!   entry 0 ............ sentinel | a | b | c | free ... free |
//!                        (odd)                ^cursor: 3 objects
//! ```
//!
//! The *cursor* is the address of the last used entry. On the sentinel the sheaf is empty; on entry
//! 127 it is full. So `pop` needs no length and `push` no capacity.

/// Bytes, and alignment, of a sheaf.
pub const SHEAF_BYTES: usize = 1024;
/// Number of entries of a sheaf, including the sentinel.
pub const ENTRIES: usize = SHEAF_BYTES / 8;
/// Largest number of objects in a sheaf.
pub const OBJECTS_MAX: usize = ENTRIES - 1;

/// Two constant sheaves, each both empty and full: the last entry is the sentinel.
#[repr(C, align(1024))]
struct Constant {
    bootstrap: [usize; ENTRIES],
    vacant: [usize; ENTRIES],
}

const EMPTY_AND_FULL: [usize; ENTRIES] = {
    let mut entries = [0; ENTRIES];
    entries[ENTRIES - 1] = 1;
    entries
};

static CONSTANT: Constant = Constant { bootstrap: EMPTY_AND_FULL, vacant: EMPTY_AND_FULL };

/// A cursor that is known at link time; `Sync`, because it is never written through.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct ConstantCursor(*const usize);

// SAFETY: the address is that of immutable memory.
unsafe impl Sync for ConstantCursor {}

impl ConstantCursor {
    /// The cursor as the number that words hold.
    #[inline]
    #[must_use]
    pub fn get(self) -> usize {
        self.0.addr()
    }
}

/// The cursor in every word of the bootstrap block: "this slot has no block".
pub static BOOTSTRAP: ConstantCursor = ConstantCursor(&raw const CONSTANT.bootstrap[ENTRIES - 1]);

/// The cursor of a word whose slot has a block but no sheaf in this word.
pub static VACANT: ConstantCursor = ConstantCursor(&raw const CONSTANT.vacant[ENTRIES - 1]);

/// Both cursors as constants, for static initialisers.
pub(crate) const BOOTSTRAP_CURSOR: ConstantCursor =
    ConstantCursor(&raw const CONSTANT.bootstrap[ENTRIES - 1]);

/// True when the sheaf is full: the cursor is on the last entry.
#[inline]
#[must_use]
pub fn is_full(cursor: usize) -> bool {
    (cursor + 8).is_multiple_of(SHEAF_BYTES)
}

/// True when the entry that `pop` read is the sentinel, not an object.
#[inline]
#[must_use]
pub fn is_sentinel(entry: usize) -> bool {
    entry & 1 != 0
}

/// Address of the sheaf that a cursor points into.
#[inline]
#[must_use]
pub fn base(cursor: usize) -> usize {
    cursor & !(SHEAF_BYTES - 1)
}

const _: () = {
    assert!(SHEAF_BYTES.is_power_of_two());
    assert!(align_of::<Constant>() == SHEAF_BYTES);
    assert!(size_of::<Constant>() == 2 * SHEAF_BYTES);
};
