//! The fast paths: `malloc`, `free` and their forms for callers that know the layout.
//!
//! ```text
//!   malloc: size -> class (one load) -> pop from the class's sheaf
//!   free:   address -> granule (arithmetic) -> owner (one load) -> class -> push
//! ```
//!
//! A free checks that the address is one of ours and the start of an object; a caller that gives
//! the layout saves both looks. Everything else is in `slow.rs`.

use core::alloc::Layout;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_percpu::{self as percpu, Access, Word, sheaf::is_sentinel};
use sheaves_slab::CacheId;
use sheaves_slab::granule::{self, OWNER_STEP, OWNERS};

use crate::classes::{self, CLASSES, SMALL_BYTES_MAX};
use crate::slow;

/// What `free` needs to check that an address starts an object, one for each owner.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Check {
    /// ceil(2^64 / size); 0 where the owner is no size class, which fails every check.
    reciprocal: u64,
    /// Bytes of a slab, less one: slabs are aligned to their size.
    offset_mask: u64,
}

const _: () = assert!(size_of::<Check>() == OWNER_STEP);

static CHECKS: [Check; OWNERS] = {
    let mut checks = [Check { reciprocal: 0, offset_mask: 0 }; OWNERS];
    let mut class = 0;
    while class < CLASSES {
        let size = classes::SIZE_TABLE[class] as u64;
        let granules = match size {
            0..=1024 => 1,
            1025..=2048 => 2,
            2049..=4096 => 4,
            _ => 8,
        };
        checks[CacheId::new(class as u16).owner() as usize / OWNER_STEP] =
            Check { reciprocal: u64::MAX / size + 1, offset_mask: granules * (64 << 10) - 1 };
        class += 1;
    }
    checks
};

/// Sizes below this are served by the fast path; 0 until the classes exist, so that the start
/// needs no test of its own.
static FAST_BYTES_END: AtomicUsize = AtomicUsize::new(0);

/// Opens the fast path. The engine has started and the classes exist.
pub(crate) fn open() {
    // Release: what the start wrote comes before; partner are the loads of the limit. These are
    // relaxed and need no fence: all that they lead to (access words, blocks, sheaves) is either
    // constant since the start or read inside a sequence, which refuses what is not there.
    FAST_BYTES_END.store(SMALL_BYTES_MAX + 1, Ordering::Release);
}

/// True when the fast path is open and serves this size, which is then at most
/// [`SMALL_BYTES_MAX`].
#[inline(always)]
fn is_fast(size: usize) -> bool {
    // Relaxed: see `open`.
    size < FAST_BYTES_END.load(Ordering::Relaxed)
}

/// Takes an object from a word of allocations, or an odd number.
///
/// # Safety
/// The fast path is open.
#[inline(always)]
unsafe fn pop(word: Word) -> usize {
    // SAFETY: the fast path was opened after the engine's start.
    let access = unsafe { Access::of_started() };
    percpu::pop(access, word)
}

/// At least `size` bytes at a multiple of 16, uninitialised; null (and `ENOMEM`) when there is no
/// memory. Size 0 gives a unique pointer.
///
/// Common path: about 20 instructions, no atomic. May sleep on a lock for microseconds otherwise.
/// Safe in every thread at any time; not in signal handlers.
#[inline(always)]
#[must_use]
pub fn malloc(size: usize) -> *mut u8 {
    if is_fast(size) {
        // SAFETY: the size is within what the fast path serves.
        let class = unsafe { classes::of_size_unchecked(size) };
        // SAFETY: the fast path is open.
        let object = unsafe { pop(CacheId::new(class as u16).allocs()) };
        if !is_sentinel(object) {
            return with_exposed_provenance_mut(object);
        }
    }
    slow::malloc(size)
}

/// Gives memory back. Null is ignored. `errno` is kept.
///
/// An address that is not ours, or not the start of a block, ends the process with one line; a
/// double free does so when it is noticed: at once in debug mode, otherwise when the block returns
/// to its slab.
///
/// # Safety
/// `block` came from this heap, and nobody uses it any more.
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    let address = block.expose_provenance();
    let owner = granule::owner_of(address);
    if let Some(owner) = owner.filter(|owner| starts_object(*owner, address)) {
        // SAFETY: an address with an owner proves that the engine has started.
        let access = unsafe { Access::of_started() };
        // SAFETY: objects are even, and the caller gives up this one.
        if unsafe { percpu::push(access, CacheId::frees_of_owner(owner), address) } {
            return;
        }
    }
    // SAFETY: the same contract.
    unsafe { slow::free(block) };
}

/// True when the owner is a size class and one of its objects can start at the address.
#[inline(always)]
fn starts_object(owner: usize, address: usize) -> bool {
    debug_assert!(owner < OWNERS * OWNER_STEP && owner.is_multiple_of(OWNER_STEP));
    // SAFETY: every entry of the owner map is a multiple of the step below that many steps.
    let check = unsafe { CHECKS.as_ptr().byte_add(owner) };
    // SAFETY: hence this is an element of the table.
    let check = unsafe { &*check };
    // A multiple of the size has a product whose low half is below the reciprocal: see
    // `Shape::index_of` in the slab crate.
    (address as u64 & check.offset_mask).wrapping_mul(check.reciprocal) < check.reciprocal
}

/// [`malloc`] for a layout: any alignment.
#[inline(always)]
#[must_use]
pub fn alloc_layout(layout: Layout) -> *mut u8 {
    let class = classes::of_layout(layout.size(), layout.align());
    if let (Some(class), true) = (class, is_fast(layout.size())) {
        // SAFETY: the fast path is open.
        let object = unsafe { pop(CacheId::new(class as u16).allocs()) };
        if !is_sentinel(object) {
            return with_exposed_provenance_mut(object);
        }
    }
    slow::alloc_layout(layout)
}

/// [`free`] for a caller that knows the layout: saves the look at the address.
///
/// # Safety
/// `block` came from [`alloc_layout`] or its kin with this layout, and nobody uses it any more.
#[inline(always)]
pub unsafe fn dealloc_layout(block: *mut u8, layout: Layout) {
    if let Some(class) = classes::of_layout(layout.size(), layout.align()) {
        let address = block.expose_provenance();
        // SAFETY: a block proves that the engine has started.
        let access = unsafe { Access::of_started() };
        // SAFETY: objects are even, and the caller gives up this one.
        if unsafe { percpu::push(access, CacheId::new(class as u16).frees(), address) } {
            return;
        }
    }
    // SAFETY: the same contract.
    unsafe { slow::free(block) };
}
