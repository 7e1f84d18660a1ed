//! Address space at a fixed base, taken piece by piece.
//!
//! A [`Space`] holds something that grows and must not move. Normally it reserves nothing: it has a
//! random base in a part of the address space that the kernel does not use by itself, and each
//! piece is mapped exactly where it belongs (`MAP_FIXED_NOREPLACE`). So a limit on the address
//! space (`RLIMIT_AS`) counts only the pieces that are taken, also if the limit is set later. Where
//! exact addresses are refused or not honoured (an emulator, valgrind, Linux before 4.17), the
//! space is one reservation (`PROT_NONE`). The window of the heap works in the same way.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::map::{self, Exactly};

/// Range of the bases: above the windows of heaps, and below the addresses where the kernel puts
/// programs and, far above, mappings.
pub const BASES: Range<usize> = 0x2800_0000_0000..0x5000_0000_0000;
/// Bases are multiples of this, which suits pages of any size, and huge pages.
const ALIGN: usize = 2 << 20;
const ATTEMPTS: u32 = 16;

/// A range of address space; it has no base before [`Space::find`] or [`Space::reserve`].
#[derive(Debug, Default)]
pub struct Space {
    base: AtomicUsize,
    is_reserved: AtomicBool,
}

impl Space {
    /// A space without a base.
    #[must_use]
    pub const fn new() -> Space {
        Space { base: AtomicUsize::new(0), is_reserved: AtomicBool::new(false) }
    }

    /// The first address.
    #[inline]
    #[must_use]
    pub fn base(&self) -> usize {
        // Relaxed: written once, before anything that depends on it is published.
        self.base.load(Ordering::Relaxed)
    }

    /// Finds a free base for `bytes` without reserving them, and takes the first `taken` bytes.
    /// False, with nothing changed, if exact addresses are not honoured or memory is out. Call this
    /// or [`Space::reserve`] once, before other threads use the space.
    #[must_use]
    pub fn find(&self, bytes: usize, taken: usize) -> bool {
        let Some(room) = BASES.len().checked_sub(bytes) else { return false };
        let mut seed = crate::process::random_seed() | 1;
        for _ in 0..ATTEMPTS {
            // Steps of a 64-bit linear congruential generator (L'Ecuyer 1999).
            seed = seed.wrapping_mul(3_935_559_000_370_003_845).wrapping_add(1);
            let place = usize::try_from(seed >> 24).unwrap_or(0) % (room / ALIGN + 1);
            let base = BASES.start + place * ALIGN;
            match map::exactly(base, taken) {
                Exactly::Mapped => {
                    map::avoid_huge_pages(base, taken);
                    // Relaxed: as in `base`.
                    self.base.store(base, Ordering::Relaxed);
                    return true;
                }
                Exactly::Occupied => {}
                Exactly::Refused => return false,
            }
        }
        false
    }

    /// Reserves `bytes`, and takes none of them. False when the kernel refuses.
    #[must_use]
    pub fn reserve(&self, bytes: usize) -> bool {
        let Some(start) = map::reserve(bytes + ALIGN) else { return false };
        map::avoid_huge_pages(start, bytes + ALIGN);
        // Relaxed, both: as in `base`.
        self.base.store(start.next_multiple_of(ALIGN), Ordering::Relaxed);
        self.is_reserved.store(true, Ordering::Relaxed);
        true
    }

    /// Makes whole pages readable and writable; they read as zeros. False, with nothing changed,
    /// when memory is out or the range is in use.
    ///
    /// # Safety
    /// The range lies in the space, and no part of it is taken.
    #[must_use]
    pub unsafe fn take(&self, address: usize, bytes: usize) -> bool {
        // Relaxed: as in `base`.
        if self.is_reserved.load(Ordering::Relaxed) {
            // SAFETY: part of the reservation.
            return unsafe { map::commit(address, bytes) };
        }
        let is_taken = map::exactly(address, bytes) == Exactly::Mapped;
        if is_taken {
            map::avoid_huge_pages(address, bytes);
        }
        is_taken
    }

    /// Undoes [`Space::take`].
    ///
    /// # Safety
    /// The range was taken, and nothing in it is live or referred to.
    pub unsafe fn untake(&self, address: usize, bytes: usize) {
        // Relaxed: as in `base`.
        if self.is_reserved.load(Ordering::Relaxed) {
            // SAFETY: part of the reservation; the caller guarantees that nothing in it is live.
            unsafe { map::uncommit(address, bytes) };
        } else {
            // SAFETY: mapped by `take`; the caller guarantees that nothing in it is live.
            unsafe { map::unmap(address, bytes) };
        }
    }
}

/// A part of a [`Space`], taken from its start upwards.
#[derive(Debug, Default)]
pub struct Part {
    /// Written once by [`Part::place`].
    start: AtomicUsize,
    /// Written once by [`Part::place`].
    bytes_max: AtomicUsize,
    /// Bytes that are taken: whole pages. Grows under a lock of the owner.
    taken: AtomicUsize,
    /// Bytes to which it is growing, 0 for none: what [`Part::recover`] must undo.
    wanted: AtomicUsize,
}

impl Part {
    /// A part without an address.
    #[must_use]
    pub const fn new() -> Part {
        let [start, bytes_max, taken, wanted] = [const { AtomicUsize::new(0) }; 4];
        Part { start, bytes_max, taken, wanted }
    }

    /// Sets its address and size, in whole pages. Once, before other threads use it.
    pub fn place(&self, start: usize, bytes_max: usize) {
        // Relaxed, both: before anything that depends on it is published.
        self.start.store(start, Ordering::Relaxed);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// The first address.
    #[inline]
    #[must_use]
    pub fn start(&self) -> usize {
        // Relaxed: as in `place`.
        self.start.load(Ordering::Relaxed)
    }

    /// The largest size of [`Part::grow_to`], in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        // Relaxed: as in `place`.
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Makes the first `bytes` readable and writable. False, with nothing changed, when they exceed
    /// the part or memory is out.
    ///
    /// # Safety
    /// The part lies in this space and shares no page with another; no other thread calls this at
    /// the same time.
    #[must_use]
    pub unsafe fn grow_to(&self, space: &Space, bytes: usize) -> bool {
        let bytes = bytes.next_multiple_of(map::page_bytes());
        // Relaxed: under the caller's lock.
        let taken = self.taken.load(Ordering::Relaxed);
        if bytes <= taken {
            return true;
        }
        if bytes > self.bytes_max() {
            return false;
        }
        // Relaxed, here and below: as above; the system call stays in between.
        self.wanted.store(bytes, Ordering::Relaxed);
        // SAFETY: in the part, and not taken.
        let grown = unsafe { space.take(self.start() + taken, bytes - taken) };
        if grown {
            self.taken.store(bytes, Ordering::Relaxed);
        }
        self.wanted.store(0, Ordering::Relaxed);
        grown
    }

    /// Undoes, in a child of a fork, a [`Part::grow_to`] that another thread had begun.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn recover(&self, space: &Space) {
        // Relaxed, both: under the caller's lock.
        let taken = self.taken.load(Ordering::Relaxed);
        let wanted = self.wanted.swap(0, Ordering::Relaxed);
        if wanted > taken {
            // SAFETY: in the part; the thread that began to take it has told no other.
            unsafe { space.untake(self.start() + taken, wanted - taken) };
        }
    }
}

const _: () = assert!(BASES.start.is_multiple_of(ALIGN));

#[cfg(test)]
#[path = "../tests/unit/space.rs"]
mod tests;
