//! Handles, as returned by [`super::alloc`].

use core::num::NonZeroU64;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::memory::access::open_row;
use crate::percpu::{CellRef, CellValue};
use crate::rows;

/// A per-CPU object: one place in every slot, at the same offset.
///
/// It can be stored as a number: [`Handle::to_bits`]. It contains the object's size, so that `free`
/// needs no lookup. A seal detects numbers from elsewhere.
///
/// | bits | content |
/// |---|---|
/// | 0..28 | offset in the row, in units of 4 bytes |
/// | 28..44 | size in bytes |
/// | 44..48 | logarithm of the alignment |
/// | 48..64 | seal: a hash of the other bits and of a secret of the process |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(NonZeroU64);

const SIZE_SHIFT: u32 = 28;
const ALIGN_SHIFT: u32 = 44;
const SEAL_SHIFT: u32 = 48;

/// The secret of the seals; 0 until the first handle.
static SECRET: AtomicU64 = AtomicU64::new(0);

fn secret() -> u64 {
    // Relaxed, both: every thread stores the same number.
    let known = SECRET.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let made = sheaves_sys::process::random_seed() | 1;
    SECRET.store(made, Ordering::Relaxed);
    made
}

fn seal(rest: u64) -> u64 {
    // The multiplier is that of Fibonacci hashing: the upper bits depend on all of `rest`.
    (rest ^ secret()).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> SEAL_SHIFT
}

impl Handle {
    /// `offset` below 1 GiB and a multiple of 4, `size` from 1 to 32 KiB, `align` a power of two up
    /// to 4096.
    pub(super) fn new(offset: usize, size: usize, align: usize) -> Option<Handle> {
        let rest = (offset as u64 / 4)
            | ((size as u64) << SIZE_SHIFT)
            | (u64::from(align.trailing_zeros()) << ALIGN_SHIFT);
        NonZeroU64::new(rest | (seal(rest) << SEAL_SHIFT)).map(Handle)
    }

    /// The handle as a number, which is never 0.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// The handle of a number; `None` when the number cannot be from this process's
    /// [`Handle::to_bits`]. One foreign number in 65536 passes. [`super::free`] then refuses it,
    /// unless an object begins at its offset.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Handle> {
        let rest = bits & ((1 << SEAL_SHIFT) - 1);
        let sealed = seal(rest) == bits >> SEAL_SHIFT;
        NonZeroU64::new(bits).filter(|_| sealed).map(Handle)
    }

    /// Offset of the object in every row, in bytes.
    #[must_use]
    pub fn offset(self) -> usize {
        (self.0.get() & ((1 << SIZE_SHIFT) - 1)) as usize * 4
    }

    /// Size of the object in one slot, in bytes, as requested.
    #[must_use]
    pub fn size(self) -> usize {
        ((self.0.get() >> SIZE_SHIFT) & 0xFFFF) as usize
    }

    /// Alignment of the object, as requested.
    #[must_use]
    pub fn align(self) -> usize {
        1 << ((self.0.get() >> ALIGN_SHIFT) & 0xF)
    }

    /// The [`SlotCell`](crate::SlotCell) at `byte` of the object, for transactions.
    ///
    /// # Safety
    /// While the result is used, the object is allocated, with an alignment of at least 8. `byte`
    /// is a multiple of 8 and at most `size - 8`. Only transactions change these eight bytes.
    #[inline]
    #[must_use]
    pub unsafe fn cell<'a, W: CellValue>(self, byte: usize) -> CellRef<'a, W> {
        // SAFETY: the same contract.
        unsafe { CellRef::at(self.offset() + byte) }
    }

    /// The address of the object in a slot's row, even if no thread has used the slot. `None` when
    /// there is no such slot or memory is out. With the number of slots as `slot`, the result is in
    /// the row that threads without a slot share.
    ///
    /// The memory is valid while the object is allocated. Other threads may run transactions on it,
    /// so use atomics unless the program excludes that.
    #[must_use]
    pub fn address(self, slot: usize) -> Option<NonNull<u8>> {
        if rows::slot_count() == 0 || slot > rows::shared() {
            return None;
        }
        let address = rows::row(slot) + self.offset();
        NonNull::new(core::ptr::with_exposed_provenance_mut(address)).filter(|_| open_row(slot))
    }
}

const _: () = {
    assert!(crate::dynamic::OBJECT_BYTES_MAX <= 0xFFFF);
    assert!(crate::dynamic::ALIGN_MAX <= 1 << 0xF);
};

#[cfg(test)]
#[path = "../../tests/unit/memory_handle.rs"]
mod tests;
