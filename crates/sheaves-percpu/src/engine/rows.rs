//! Transactions on words anywhere in a row, for per-CPU objects.
//!
//! | transaction | effect on the word at an offset in the current slot's row | declines if |
//! |---|---|---|
//! | [`add`] | wrapping addition | never |
//! | [`add_bounded`], [`add_near`] | addition | the sum is out of bounds |
//! | [`add_guarded`] | wrapping addition | the guard is not 0; the word is [`CLOSED`] |
//! | [`cmp_store`] | stores the new value if it holds the expected one | it holds another |
//!
//! As for words of blocks, the inlined forms work only in the rseq engine, and those in [`slow`] in
//! both. All of them return [`Outcome::NoBlock`] without a block.
//!
//! Public only for the tests that interrupt every rseq critical section.
//!
//! A guard stops additions from outside: set the guard, fence, read the words. The portable engine
//! has nothing to fence, so there the words themselves are closed, too.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::{Access, Mode, mode};
use crate::area::{self, rows};

#[cfg(target_arch = "x86_64")]
#[path = "rows_x86_64.rs"]
mod fast;

/// Without an rseq engine every fast path fails.
#[cfg(not(target_arch = "x86_64"))]
mod fast {
    use super::{Access, Near, Outcome};
    use core::sync::atomic::AtomicUsize;

    pub(super) unsafe fn add(_: Access, _: usize, _: usize) -> Outcome {
        Outcome::NoBlock
    }
    pub(super) unsafe fn add_const<const AMOUNT: i32>(_: Access, _: usize) -> Outcome {
        Outcome::NoBlock
    }
    pub(super) unsafe fn add_bounded<const BITS: u32>(_: Access, _: usize, _: usize) -> Outcome {
        Outcome::NoBlock
    }
    pub(super) unsafe fn add_near<const BITS: u32>(_: Near, _: usize) -> Outcome {
        Outcome::NoBlock
    }
    pub(super) unsafe fn add_near_const<const BITS: u32, const AMOUNT: i32>(_: Near) -> Outcome {
        Outcome::NoBlock
    }
    pub(super) unsafe fn add_guarded<const AMOUNT: i32>(
        _: Access,
        _: &AtomicUsize,
        _: usize,
    ) -> Outcome {
        Outcome::NoBlock
    }
    pub(super) unsafe fn cmp_store(_: Access, _: usize, _: usize, _: usize) -> Outcome {
        Outcome::NoBlock
    }
}

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

/// The offset of a word and the [`Access`] to it in one number: an addition gets all of them by one
/// load from the word's owner.
///
/// | bits | content |
/// |---|---|
/// | 0..32 | offset of the slot number from the thread pointer, signed |
/// | 32..63 | offset in the row |
/// | 63 | 1, the mark |
///
/// The rseq area, which contains `rseq_cs`, begins at the last multiple of its size before the slot
/// number.
///
/// # Invariants
/// The engine has started, and area and slot number are where this says.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Near(u64);

impl Near {
    const MARK: u64 = 1 << 63;
    /// The mark's contribution to [`Near::marked_offset`].
    pub(super) const MARK_BYTES: usize = 1 << 31;
    /// The alignment of an rseq area: the size of its first version.
    const AREA_BYTES: isize = 32;

    /// For the word at an offset in rows; `None` where the engine has no `Near`.
    #[must_use]
    pub fn new(offset: usize) -> Option<Near> {
        if !cfg!(target_arch = "x86_64") || mode() != Mode::Rseq {
            return None;
        }
        let access = Access::get();
        let slot = i32::try_from(access.slot).ok()?;
        let place = Near(Near::MARK | (offset as u64) << 32 | u64::from(slot.cast_unsigned()));
        // INVARIANT: the access is valid, and this has the same offsets.
        let sequence = place.area() + sheaves_sys::rseq::RSEQ_CS_OFFSET.cast_signed();
        (sequence == access.sequence).then_some(place)
    }

    /// The `Near` of a number; `None` where the number is something else.
    ///
    /// # Safety
    /// If the number's highest bit is set, it is from [`Near::to_bits`].
    #[inline(always)]
    pub(crate) unsafe fn from_bits(bits: u64) -> Option<Near> {
        (bits & Near::MARK != 0).then_some(Near(bits))
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// The offset.
    pub(crate) fn offset(self) -> usize {
        self.marked_offset() - Near::MARK_BYTES
    }

    #[inline(always)]
    fn slot(self) -> isize {
        (self.0 as u32).cast_signed() as isize
    }

    #[inline(always)]
    fn area(self) -> isize {
        self.slot() & -Near::AREA_BYTES
    }

    #[inline(always)]
    fn marked_offset(self) -> usize {
        (self.0 >> 32) as usize
    }
}

const _: () = assert!(rows::ROW_BYTES_MAX <= Near::MARK_BYTES);

/// The largest `BITS` of [`add_bounded`]: the bound is an immediate operand.
pub const BITS_MAX: u32 = 30;

/// The value of a closed word for [`add_guarded`] in the portable engine. No count is close to it.
pub const CLOSED: usize = 1 << 63;

/// Adds to a word of the current slot, wrapping. Never blocks, no atomic.
///
/// # Safety
/// As for all functions of this file: the offset is a multiple of 8, and every open row has memory
/// at it. The eight bytes are in an object, and only transactions change them.
#[inline(always)]
pub unsafe fn add(access: Access, offset: usize, amount: usize) -> Outcome {
    // SAFETY: the same contract.
    unsafe { fast::add(access, offset, amount) }
}

/// [`add`] of a constant. Some CPUs then forward the sum from one addition to the next without a
/// delay; with an amount in a register they do not.
///
/// # Safety
/// As [`add`].
#[inline(always)]
pub unsafe fn add_const<const AMOUNT: i32>(access: Access, offset: usize) -> Outcome {
    // SAFETY: the same contract.
    unsafe { fast::add_const::<AMOUNT>(access, offset) }
}

/// Adds if the sum, as a signed number, is in -2<sup>`BITS`</sup> .. 2<sup>`BITS`</sup>.
/// `BITS` is at most [`BITS_MAX`].
///
/// # Safety
/// As [`add`].
#[inline(always)]
pub unsafe fn add_bounded<const BITS: u32>(
    access: Access,
    offset: usize,
    amount: usize,
) -> Outcome {
    const { assert!(BITS <= BITS_MAX) };
    // SAFETY: the same contract.
    unsafe { fast::add_bounded::<BITS>(access, offset, amount) }
}

/// [`add_bounded`] with two loads fewer.
///
/// # Safety
/// As [`add`], for the offset in `place`.
#[inline(always)]
pub unsafe fn add_near<const BITS: u32>(place: Near, amount: usize) -> Outcome {
    const { assert!(BITS <= BITS_MAX) };
    // SAFETY: the same contract.
    unsafe { fast::add_near::<BITS>(place, amount) }
}

/// [`add_near`] of a constant, as in [`add_const`].
///
/// # Safety
/// As [`add_near`].
#[inline(always)]
pub unsafe fn add_near_const<const BITS: u32, const AMOUNT: i32>(place: Near) -> Outcome {
    const { assert!(BITS <= BITS_MAX) };
    // SAFETY: the same contract.
    unsafe { fast::add_near_const::<BITS, AMOUNT>(place) }
}

/// Adds if the guard is 0, wrapping.
///
/// # Safety
/// As [`add`].
#[inline(always)]
pub unsafe fn add_guarded<const AMOUNT: i32>(
    access: Access,
    guard: &AtomicUsize,
    offset: usize,
) -> Outcome {
    // SAFETY: the same contract.
    unsafe { fast::add_guarded::<AMOUNT>(access, guard, offset) }
}

/// Replaces `expected` by `new`, if the word holds `expected`.
///
/// # Safety
/// As [`add`].
#[inline(always)]
pub unsafe fn cmp_store(access: Access, offset: usize, expected: usize, new: usize) -> Outcome {
    // SAFETY: the same contract.
    unsafe { fast::cmp_store(access, offset, expected, new) }
}

/// The address of the current slot's row: a hint. `None` when the slot has no block.
#[inline]
pub(crate) fn current_row() -> Option<usize> {
    let slot = super::current_slot();
    let row = area::current_block(slot);
    (row != area::bootstrap()).then_some(row)
}

/// The same transactions in either engine.
pub mod slow {
    use super::{Access, AtomicUsize, CLOSED, Mode, Ordering, Outcome, area, fast, mode};

    /// As [`super::add`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn add(offset: usize, amount: usize) -> Outcome {
        match mode() {
            // SAFETY: the same contract.
            Mode::Rseq => unsafe { fast::add(Access::get(), offset, amount) },
            Mode::Portable => change(offset, |value| Some(value.wrapping_add(amount))),
            Mode::NotStarted => Outcome::NoBlock,
        }
    }

    /// As [`super::add_bounded`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn add_bounded<const BITS: u32>(offset: usize, amount: usize) -> Outcome {
        match mode() {
            // SAFETY: the same contract.
            Mode::Rseq => unsafe { super::add_bounded::<BITS>(Access::get(), offset, amount) },
            Mode::Portable => change(offset, |value| {
                let sum = value.wrapping_add(amount);
                (sum.wrapping_add(1 << BITS) >> (BITS + 1) == 0).then_some(sum)
            }),
            Mode::NotStarted => Outcome::NoBlock,
        }
    }

    /// As [`super::add_guarded`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn add_guarded<const AMOUNT: i32>(guard: &AtomicUsize, offset: usize) -> Outcome {
        match mode() {
            // SAFETY: the same contract.
            Mode::Rseq => unsafe { fast::add_guarded::<AMOUNT>(Access::get(), guard, offset) },
            Mode::Portable => {
                let Some(word) = current_word(offset) else { return Outcome::NoBlock };
                // Acquire pairs with the Release of the thread that clears the guard. A block that
                // was installed after the words were closed is found only after the guard was set,
                // because both happen under the slots lock. So the guard is read after the block.
                if guard.load(Ordering::Acquire) != 0 {
                    return Outcome::Declined;
                }
                let amount = AMOUNT as usize;
                change_word(word, |value| (value != CLOSED).then(|| value.wrapping_add(amount)))
            }
            Mode::NotStarted => Outcome::NoBlock,
        }
    }

    /// As [`super::cmp_store`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn cmp_store(offset: usize, expected: usize, new: usize) -> Outcome {
        match mode() {
            // SAFETY: the same contract.
            Mode::Rseq => unsafe { fast::cmp_store(Access::get(), offset, expected, new) },
            Mode::Portable => change(offset, |value| (value == expected).then_some(new)),
            Mode::NotStarted => Outcome::NoBlock,
        }
    }

    /// The word in the current virtual slot's row.
    fn current_word(offset: usize) -> Option<&'static AtomicUsize> {
        super::current_row().map(|row| area::word_at(row + offset))
    }

    fn change(offset: usize, new: impl Fn(usize) -> Option<usize>) -> Outcome {
        current_word(offset).map_or(Outcome::NoBlock, |word| change_word(word, new))
    }

    /// Atomic: in this engine threads share slots.
    pub(super) fn change_word(word: &AtomicUsize, new: impl Fn(usize) -> Option<usize>) -> Outcome {
        // AcqRel pairs with itself, on the same word: transactions on a slot are ordered. Relaxed
        // on failure: the value is only used for the next attempt.
        match word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, new) {
            Ok(_) => Outcome::Done,
            Err(_) => Outcome::Declined,
        }
    }
}
