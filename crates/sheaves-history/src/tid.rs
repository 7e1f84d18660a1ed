//! A slab's fast path with a list and a transaction number for each CPU.
//!
//! **Source.** Linux 2.6.39, "Lockless (and preemptless) fastpaths for slub" (2011). Published: an
//! allocation and a free take 78 to 88 cycles, and took 132 to 152 before; only repeated frees
//! became slower, by 2 % on average.
//!
//! **Reproduced.** Each CPU has a list of free objects, linked through the objects themselves, and
//! a transaction number. One 16-byte compare-and-exchange changes head and number together. A
//! thread that got in between has changed the number, so the exchange fails and the operation
//! starts again. The kernel uses the instruction without the lock prefix, because only the CPU
//! itself uses its slot; a program cannot know that, so here it is locked.
//!
//! The lessons of the following years are kept:
//! - The pair is 16-byte aligned by its type, and its layout is proved below.
//! - The number is read before the head, both from one and the same slot.
//! - *Every* change of the head increases the number, including the removal of the whole list.
//! - The link is read from an object that may have been allocated to another thread meanwhile. The
//!   value is discarded then, but the read must not fault: slabs stay mapped while their cache
//!   lives.
//! - The head is read once, for the link and for the comparison.
//! - The number has 64 bits and steps by a power of two not below the number of slots.
//!
//! The instruction must be enabled function by function, so both operations are calls that are not
//! inlined: about one nanosecond that the kernel's version does not have. The calls use pointers
//! that are opaque to the optimiser. Otherwise LLVM inlines such a function even where the
//! instruction is not enabled, and replaces the instruction by a call into a library that is
//! absent.

use core::arch::x86_64::cmpxchg16b;
use core::hint::black_box;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU64, Ordering};

use sheaves::raw::Cache;

use crate::cpu::{Padded, current_cpu, slot_count};

/// The most objects in a slot's list; more are freed to the slab.
const CAPACITY: u64 = 256;
/// Objects that are allocated from the slab, or freed to it, at once.
const BATCH: usize = 128;
/// The upper bits of a head hold the length of the list; addresses of programs are below that.
const LENGTH_SHIFT: u32 = 48;
const ADDRESS_MASK: u64 = (1 << LENGTH_SHIFT) - 1;

/// True when this CPU has the instruction.
#[must_use]
pub fn is_available() -> bool {
    std::arch::is_x86_feature_detected!("cmpxchg16b")
}

/// The two words that change together.
///
/// | word | content | written by |
/// |---|---|---|
/// | `head` | bits 0..48 address of the first free object, bits 48..64 length | `Slot::exchange` |
/// | `id` | transaction number; grows by the step with every change of `head` | `Slot::exchange` |
#[derive(Debug)]
#[repr(C, align(16))]
struct Pair {
    head: AtomicU64,
    id: AtomicU64,
}

const _: () = {
    assert!(size_of::<Pair>() == 16 && align_of::<Pair>() == 16);
    assert!(core::mem::offset_of!(Pair, head) == 0);
    assert!(core::mem::offset_of!(Pair, id) == 8);
};

impl Pair {
    /// Reads both words; the exchange fails later if they do not belong together.
    #[inline]
    fn read(&self) -> (u64, u64) {
        // Acquire: keeps the number's read before the head's; partner is the exchange.
        let id = self.id.load(Ordering::Acquire);
        // Acquire: the link in the object was written before the exchange that published it.
        (self.head.load(Ordering::Acquire), id)
    }

    /// Replaces both words if neither has changed.
    #[inline]
    #[target_feature(enable = "cmpxchg16b")]
    fn exchange(&self, old: (u64, u64), new: (u64, u64)) -> bool {
        let join = |(head, id): (u64, u64)| u128::from(head) | u128::from(id) << 64;
        let target = core::ptr::from_ref(self).cast_mut().cast::<u128>();
        let (acquire_release, acquire) = (Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: the pair is 16 bytes, aligned to 16, and made of atomics, so that it may change
        // behind a shared reference. Acquire-release: partner is `read` and this exchange itself.
        let seen = unsafe { cmpxchg16b(target, join(old), join(new), acquire_release, acquire) };
        seen == join(old)
    }
}

/// The functions in which the instruction is enabled.
///
/// # Invariants
/// Only [`Tid::with_slots`] makes one, after it has checked that the CPU has the instruction.
#[derive(Clone, Copy, Debug)]
struct Enabled {
    pop: unsafe fn(&Tid) -> *mut u8,
    push: unsafe fn(&Tid, *mut u8),
    flush: unsafe fn(&Tid, &Pair),
}

/// A slab cache and a list of free objects for each CPU.
#[derive(Debug)]
pub struct Tid {
    enabled: Enabled,
    slots: Box<[Padded<Pair>]>,
    /// The step of transaction numbers: no two slots ever use the same number.
    step: u64,
    cache: Cache,
}

impl Tid {
    /// Creates a list for each CPU. `None` if the CPU has no 16-byte compare-and-exchange. Objects
    /// of the cache have at least 8 bytes and are aligned to 8.
    pub fn new(cache: Cache) -> Option<Tid> {
        Tid::with_slots(cache, slot_count())
    }

    /// Creates `count` lists, a power of two; CPUs with larger numbers share them.
    ///
    /// # Panics
    /// If `count` is not a power of two.
    pub fn with_slots(cache: Cache, count: usize) -> Option<Tid> {
        assert!(count.is_power_of_two());
        if !is_available() {
            return None;
        }
        let pair = |slot| Pair { head: AtomicU64::new(0), id: AtomicU64::new(slot as u64) };
        let slots: Box<[_]> = (0..count).map(|slot| Padded(pair(slot))).collect();
        let step = slots.len() as u64;
        // INVARIANT: the CPU has the instruction, see above.
        let enabled = Enabled {
            pop: black_box(Tid::pop),
            push: black_box(Tid::push),
            flush: black_box(Tid::flush_slow),
        };
        Some(Tid { enabled, slots, step, cache })
    }

    /// Allocates an object of the cache; null when memory is out.
    #[inline]
    pub fn alloc(&self) -> *mut u8 {
        // SAFETY: `with_slots` has checked that the CPU has the instruction.
        unsafe { (self.enabled.pop)(self) }
    }

    /// Frees an object.
    ///
    /// # Safety
    /// From [`Tid::alloc`], and not used any more.
    #[inline]
    pub unsafe fn free(&self, object: *mut u8) {
        // SAFETY: as in `alloc`.
        unsafe { (self.enabled.push)(self, object) }
    }

    #[inline]
    fn pair(&self) -> &Pair {
        // The count is a power of two, so the mask keeps any number in range.
        &self.slots[current_cpu() & (self.slots.len() - 1)].0
    }

    #[target_feature(enable = "cmpxchg16b")]
    fn pop(&self) -> *mut u8 {
        let pair = self.pair();
        loop {
            let (head, id) = pair.read();
            let object = address_of(head);
            if object.is_null() {
                return self.refill_slow();
            }
            // SAFETY: the memory stays mapped while the cache lives; the exchange decides whether
            // the word is still a link.
            let next = unsafe { read_link(object) };
            let rest = next & ADDRESS_MASK | length_bits(length_of(head) - 1);
            if pair.exchange((head, id), (rest, id.wrapping_add(self.step))) {
                return object;
            }
        }
    }

    #[target_feature(enable = "cmpxchg16b")]
    fn push(&self, object: *mut u8) {
        let pair = self.pair();
        loop {
            let (head, id) = pair.read();
            if length_of(head) >= CAPACITY {
                self.flush_slow(pair);
                continue;
            }
            // SAFETY: the object belongs to the caller until the exchange succeeds.
            unsafe { write_link(object, head & ADDRESS_MASK) };
            let new = object.expose_provenance() as u64 | length_bits(length_of(head) + 1);
            if pair.exchange((head, id), (new, id.wrapping_add(self.step))) {
                return;
            }
        }
    }

    /// Allocates a batch from the slab, returns one object and pushes the others.
    #[cold]
    #[target_feature(enable = "cmpxchg16b")]
    fn refill_slow(&self) -> *mut u8 {
        let mut fresh = [MaybeUninit::uninit(); BATCH];
        let got = self.cache.alloc_bulk(&mut fresh);
        // In reverse, so that they are allocated in the order of their addresses.
        for object in fresh[..got].iter().skip(1).rev() {
            // SAFETY: the first `got` entries were written by `alloc_bulk`.
            self.push(unsafe { object.assume_init() }.as_ptr());
        }
        // SAFETY: as above.
        if got == 0 { null_mut() } else { unsafe { fresh[0].assume_init() }.as_ptr() }
    }

    /// Removes the whole list from a slot and frees it to the slab.
    #[cold]
    #[target_feature(enable = "cmpxchg16b")]
    fn flush_slow(&self, pair: &Pair) {
        let mut head = loop {
            let (head, id) = pair.read();
            // Removing the list is a change like any other. If the number did not increase, an
            // operation that has read the old head could restore objects that the slab already has.
            if pair.exchange((head, id), (0, id.wrapping_add(self.step))) {
                break address_of(head);
            }
        };
        let mut batch = [NonNull::dangling(); BATCH];
        let mut count = 0;
        while let Some(object) = NonNull::new(head) {
            // SAFETY: the list is owned by this call since the exchange.
            head = address_of(unsafe { read_link(head) });
            batch[count] = object;
            count += 1;
            if count == BATCH || head.is_null() {
                // SAFETY: these came from the cache, were freed by their users, and left the list.
                unsafe { self.cache.free_bulk(&batch[..count]) };
                count = 0;
            }
        }
    }
}

#[inline]
fn address_of(head: u64) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut((head & ADDRESS_MASK) as usize)
}

#[inline]
fn length_of(head: u64) -> u64 {
    head >> LENGTH_SHIFT
}

#[inline]
fn length_bits(length: u64) -> u64 {
    length << LENGTH_SHIFT
}

/// Reads the link of a free object.
///
/// # Safety
/// The first eight bytes of `object` are mapped and aligned.
#[inline]
unsafe fn read_link(object: *mut u8) -> u64 {
    // SAFETY: the caller's promise; volatile, because the owner may write at the same time.
    unsafe { object.cast::<u64>().read_volatile() }
}

/// Writes the link of a free object.
///
/// # Safety
/// `object` is owned by the caller, and at least eight aligned bytes.
#[inline]
unsafe fn write_link(object: *mut u8, next: u64) {
    // SAFETY: the caller's promise; volatile, because a late reader may still read it.
    unsafe { object.cast::<u64>().write_volatile(next) }
}

impl Drop for Tid {
    fn drop(&mut self) {
        for slot in &self.slots {
            // SAFETY: as in `alloc`.
            unsafe { (self.enabled.flush)(self, &slot.0) };
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/tid.rs"]
mod tests;
