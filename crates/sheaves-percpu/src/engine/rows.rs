//! Transactions on words anywhere in a row, for per-CPU objects.
//!
//! | transaction | effect on the word in the current slot's row | declines if |
//! |---|---|---|
//! | [`add`] | wrapping addition | never |
//! | [`add_bounded`] | addition | the sum is out of bounds |
//! | [`add_guarded`] | wrapping addition | the guard is not 0; the word is [`CLOSED`] |
//! | [`cmp_store`] | stores the new value if the word holds the expected one | it holds another |
//!
//! The inlined forms work only in the rseq engine, and those in [`slow`] in both. All of them
//! return [`Outcome::NoBlock`] without a block.
//!
//! A guard stops additions from outside: set the guard, fence, read the words. The portable engine
//! has nothing to fence, so there the words themselves are closed, too.

use super::mode::{Access, EngineMode, mode};
use crate::rows::ROW_BYTES_MAX;
use crate::word::RowWord;

pub use super::rows_slow as slow;
pub use super::rseq::{add, add_bounded, add_bounded_const, add_const, add_guarded, cmp_store};

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It happened.
    Done,
    /// It did not happen, because of the word's value or the guard.
    Declined,
    /// It did not happen: the current slot has no block, or this form is not for this engine.
    NoBlock,
}

/// A [`RowWord`] and the [`Access`] to it in one number, for one load from the word's owner.
///
/// | bits | content |
/// |---|---|
/// | 0..32 | offset of the slot number from the thread pointer, signed |
/// | 32..63 | offset in the row |
/// | 63 | 1, which offsets alone do not have |
///
/// The rseq area, which contains `rseq_cs`, begins at the last multiple of its size before the slot
/// number.
///
/// # Invariants
/// The engine has started, area and slot number are where this says, and the invariants of
/// [`RowWord`] hold.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct PackedWord(u64);

impl PackedWord {
    const FLAG: u64 = 1 << 63;
    /// The flag's contribution to [`PackedWord::flagged_offset`].
    pub(super) const FLAG_BYTES: usize = 1 << 31;
    /// The alignment of an rseq area: the size of its first version.
    const AREA_BYTES: isize = 32;

    /// `None` where the engine has no such form.
    pub fn new(word: RowWord) -> Option<PackedWord> {
        if mode() != EngineMode::Rseq {
            return None;
        }
        // SAFETY: the engine has started.
        let access = unsafe { Access::of_started() };
        let slot = u64::from(i32::try_from(access.slot).ok()?.cast_unsigned());
        // INVARIANT: the access is valid, and this has the same offsets.
        let packed = PackedWord(PackedWord::FLAG | (word.offset() as u64) << 32 | slot);
        (packed.access() == access).then_some(packed)
    }

    /// The packed word of a number; `None` where the number is something else.
    ///
    /// # Safety
    /// If the number's highest bit is set, it is from [`PackedWord::to_bits`].
    #[inline(always)]
    pub(crate) unsafe fn from_bits(bits: u64) -> Option<PackedWord> {
        (bits & PackedWord::FLAG != 0).then_some(PackedWord(bits))
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn offset(self) -> usize {
        self.flagged_offset() & (PackedWord::FLAG_BYTES - 1)
    }

    #[inline(always)]
    pub(super) fn slot(self) -> isize {
        (self.0 as u32).cast_signed() as isize
    }

    /// The offset of the rseq area from the thread pointer.
    #[inline(always)]
    pub(super) fn area(self) -> isize {
        self.slot() & -PackedWord::AREA_BYTES
    }

    #[inline(always)]
    pub(super) fn access(self) -> Access {
        let rseq_cs = self.area() + sheaves_sys::rseq::RSEQ_CS_OFFSET.cast_signed();
        Access { rseq_cs, slot: self.slot() }
    }

    #[inline(always)]
    pub(super) fn flagged_offset(self) -> usize {
        (self.0 >> 32) as usize
    }
}

const _: () = assert!(ROW_BYTES_MAX <= PackedWord::FLAG_BYTES);

/// The largest `BITS` of [`add_bounded`]: the bound is an immediate operand.
pub const BITS_MAX: u32 = 30;

/// The value of a closed word for [`add_guarded`] in the portable engine. No count is close to it.
pub const CLOSED: usize = 1 << 63;
