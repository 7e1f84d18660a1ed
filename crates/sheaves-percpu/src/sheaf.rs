//! Sheaves: small aligned arrays of object addresses, and the cursor into them.
//!
//! A sheaf is 1 KiB, aligned to 1 KiB: 128 entries of 8 bytes. One of them is the *sentinel*: an
//! odd number (bit 0 set; the other bits may hold a link to another sheaf). The entries above it,
//! up to the end, can hold objects, whose addresses are even. A sheaf for fewer than 127 objects
//! has its sentinel higher up.
//!
//! ```text
//!   entry 0 ............ sentinel | a | b | c | free ... free |
//!                        (odd)                ^cursor: 3 objects
//! ```
//!
//! The *cursor* is the address of the last used entry; on the sentinel the sheaf is empty, on
//! entry 127 it is full. Hence `pop` needs no length and `push` no capacity.

/// Bytes, and alignment, of a sheaf.
pub const SHEAF_BYTES: usize = 1024;
/// Entries of a sheaf, the sentinel among them.
pub const ENTRIES: usize = SHEAF_BYTES / 8;
/// The most objects that a sheaf can hold.
pub const OBJECTS_MAX: usize = ENTRIES - 1;

/// Two sheaves that are both empty and full: their last entry is the sentinel.
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

/// A cursor that is known at link time, shareable because nothing is ever written through it.
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

/// The same two as constants for static initialisers.
pub(crate) const BOOTSTRAP_CURSOR: ConstantCursor =
    ConstantCursor(&raw const CONSTANT.bootstrap[ENTRIES - 1]);

/// True when no further object fits: the cursor is on the last entry.
#[inline]
#[must_use]
pub fn is_full(cursor: usize) -> bool {
    (cursor + 8).is_multiple_of(SHEAF_BYTES)
}

/// True when an entry read by `pop` was the sentinel and no object.
#[inline]
#[must_use]
pub fn is_sentinel(entry: usize) -> bool {
    entry & 1 != 0
}

/// Address of the sheaf in which a cursor lies.
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
