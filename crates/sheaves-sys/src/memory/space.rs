//! Address space at a fixed base, taken piece by piece.
//!
//! A [`Space`] holds something that grows and must not move. It has a random base in a part of the
//! address space that the kernel does not use by itself, and each piece is mapped exactly where it
//! belongs: so `RLIMIT_AS` counts only what is taken. Where that fails (the address space is full,
//! or an emulator does not honour addresses), the space is one reservation. The window of the heap
//! works likewise.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::map::{self, Exactly};
use crate::process;

/// Bases are multiples of this, which suits pages of any size, and huge pages.
pub const ALIGN: usize = 2 << 20;
/// Random places that are tried in a range of addresses.
pub const ATTEMPTS: u32 = 16;

/// Where in the address space something may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// The windows of heaps: above the addresses of programs that are linked at fixed ones.
    Windows,
    /// Spaces: below the addresses where the kernel puts programs and, far above, mappings.
    Spaces,
}

impl Area {
    /// The area in the address space of this process, then the same in one of 39 bits: some
    /// sanitizers occupy all else.
    pub fn ranges(self) -> [Range<usize>; 2] {
        // The stack is at the end of the address space.
        let stack = process::auxiliary(libc::AT_RANDOM);
        let bits = if stack == 0 { BITS_MAX } else { stack.ilog2() + 1 };
        [bits.clamp(BITS_MIN, BITS_MAX), BITS_MIN].map(|bits| self.of_bits(bits))
    }

    /// The area in an address space of that many bits, in sixteenths of it.
    fn of_bits(self, bits: u32) -> Range<usize> {
        let [begin, end] = match self {
            Area::Windows => [2, 5],
            Area::Spaces => [5, 10],
        };
        begin << (bits - 4)..end << (bits - 4)
    }
}

const BITS_MAX: u32 = 47;
const BITS_MIN: u32 = 39;

/// Random distances, by [`process::random_seed`]: a counter that is scrambled (splitmix64).
#[derive(Debug)]
pub struct Places(u64);

impl Places {
    /// Those for one area; they tell nothing of those for the other.
    pub fn new(area: Area) -> Places {
        Places(process::scramble(process::random_seed() ^ area as u64))
    }

    /// A multiple of [`ALIGN`] up to `last`.
    pub fn next(&mut self, last: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        process::scramble(self.0) as usize % (last / ALIGN + 1) * ALIGN
    }
}

/// A range of address space; it has no base before [`Space::find`] or [`Space::reserve`].
#[derive(Debug, Default)]
pub struct Space {
    base: AtomicUsize,
    is_reserved: AtomicBool,
}

impl Space {
    /// A space without a base.
    pub const fn new() -> Space {
        Space { base: AtomicUsize::new(0), is_reserved: AtomicBool::new(false) }
    }

    /// The first address.
    #[inline]
    pub fn base(&self) -> usize {
        // Relaxed: written once, before anything that depends on it is published.
        self.base.load(Ordering::Relaxed)
    }

    /// Finds a free base in a range for `bytes` without reserving them, and takes the first `taken`
    /// bytes. False, with nothing changed, if the kernel maps nothing exactly there, or memory is
    /// out. Call this or [`Space::reserve`] until one succeeds, before other threads use the space.
    #[must_use]
    #[unsafe(link_section = ".text.sheaves_load")]
    pub fn find(&self, range: &Range<usize>, bytes: usize, taken: usize) -> bool {
        let Some(room) = range.len().checked_sub(bytes) else { return false };
        let mut places = Places::new(Area::Spaces);
        for _ in 0..ATTEMPTS {
            let base = range.start + places.next(room);
            match map::exactly(base, taken) {
                Exactly::Mapped => {
                    let _ = map::avoid_huge_pages(base, taken);
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
        let _ = map::avoid_huge_pages(start, bytes + ALIGN);
        // Relaxed, both: as in `base`.
        self.base.store(start.next_multiple_of(ALIGN), Ordering::Relaxed);
        self.is_reserved.store(true, Ordering::Relaxed);
        true
    }

    /// Makes whole pages readable and writable; they read as zeros. False, with nothing changed,
    /// when memory is out or the range is in use.
    ///
    /// # Safety
    /// The range lies in the space, and no part of it is taken. If it is said to be joined, the
    /// page before it is.
    #[must_use]
    pub unsafe fn take(&self, address: usize, bytes: usize, is_joined: bool) -> bool {
        // Relaxed: as in `base`.
        if self.is_reserved.load(Ordering::Relaxed) {
            // SAFETY: part of the reservation.
            return unsafe { map::commit(address, bytes) };
        }
        let is_taken = map::exactly(address, bytes) == Exactly::Mapped
            // The process may have as many mappings as it may have.
            // SAFETY: what is before the address is a mapping of this space.
            || is_joined && unsafe { map::extend(address, bytes) };
        if is_taken {
            let _ = map::avoid_huge_pages(address, bytes);
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
}

impl Part {
    /// A part without an address.
    pub const fn new() -> Part {
        let [start, bytes_max, taken] = [const { AtomicUsize::new(0) }; 3];
        Part { start, bytes_max, taken }
    }

    /// Sets its address and size, in whole pages. Once, before other threads use it.
    pub fn place(&self, start: usize, bytes_max: usize) {
        // Relaxed, both: before anything that depends on it is published.
        self.start.store(start, Ordering::Relaxed);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// The first address.
    #[inline]
    pub fn start(&self) -> usize {
        // Relaxed: as in `place`.
        self.start.load(Ordering::Relaxed)
    }

    /// The largest size of [`Part::grow_to`], in bytes.
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
        // SAFETY: in the part, and not taken; what is before it in the part is.
        let grown = unsafe { space.take(self.start() + taken, bytes - taken, taken != 0) };
        if grown {
            // Relaxed: as above.
            self.taken.store(bytes, Ordering::Relaxed);
        }
        grown
    }
}

#[cfg(test)]
#[path = "../../tests/unit/space.rs"]
mod tests;
