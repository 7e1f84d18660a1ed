//! The fast paths: `malloc`, `free` and their forms for callers that know the layout.
//!
//! ```text
//!   malloc: size -> class (one load) -> pop from the class's sheaf
//!   free:   address -> granule (arithmetic) -> owner (one load) -> class -> push
//! ```
//!
//! A free looks whether the address is one of ours and a multiple of 16; a caller that gives the
//! layout saves both looks. Everything else is in `slow.rs`.

use core::alloc::Layout;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_percpu::{self as percpu, Access, Word, sheaf::is_sentinel};
use sheaves_slab::CacheId;
use sheaves_slab::granule;

use crate::classes::{self, SMALL_BYTES_MAX};
use crate::slow;

/// Sizes below this are served by the fast path; 0 until the classes exist, so that the start
/// needs no test of its own.
#[doc(hidden)]
pub static FAST_BYTES_END: AtomicUsize = AtomicUsize::new(0);

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

/// Gives an object to a word of frees or of deferred objects. False where it has no room.
///
/// # Safety
/// The address is that of a block of this heap, which the caller gives up.
#[inline(always)]
unsafe fn push(word: Word, address: usize) -> bool {
    // SAFETY: a block of this heap proves that the engine has started.
    let access = unsafe { Access::of_started() };
    // SAFETY: objects are even, and the caller gives up this one.
    unsafe { percpu::push(access, word, address) }
}

/// Gives an object to the word that belongs to its owner. False where it has none, or no room.
///
/// # Safety
/// As [`crate::free`].
#[inline(always)]
unsafe fn push_by_owner(address: usize, word_of: impl FnOnce(usize) -> Word) -> bool {
    let is_aligned = address.is_multiple_of(classes::QUANTUM_BYTES);
    match granule::owner_of(address) {
        // SAFETY: the same contract; an address with an owner is one of this heap.
        Some(owner) if is_aligned => unsafe { push(word_of(owner), address) },
        _ => false,
    }
}

/// Gives an object to the word that belongs to its layout. False where it has none, or no room.
///
/// # Safety
/// As [`dealloc_layout`].
#[inline(always)]
unsafe fn push_by_layout(
    address: usize,
    layout: Layout,
    word_of: impl FnOnce(CacheId) -> Word,
) -> bool {
    match classes::of_layout(layout.size(), layout.align()) {
        // SAFETY: the same contract.
        Some(class) => unsafe { push(word_of(CacheId::of_class(class)), address) },
        None => false,
    }
}

/// [`crate::malloc()`], inlined.
#[inline(always)]
#[must_use]
pub fn malloc_inline(size: usize) -> *mut u8 {
    if is_fast(size) {
        // SAFETY: the size is within what the fast path serves.
        let word = unsafe { classes::word_of_size_unchecked(size) };
        // SAFETY: the fast path is open.
        let object = unsafe { pop(word) };
        if !is_sentinel(object) {
            return with_exposed_provenance_mut(object);
        }
    }
    slow::malloc(size)
}

/// [`crate::free`], inlined.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn free_inline(block: *mut u8) {
    // SAFETY: the same contract.
    if !unsafe { push_by_owner(block.expose_provenance(), CacheId::frees_of_owner) } {
        // SAFETY: the same contract.
        unsafe { slow::free(block) };
    }
}

/// [`crate::free`] once everybody who reads now is gone ([`sheaves_rcu::read`]).
///
/// As cheap as `free`: one push, nothing is written into the block, no thread is woken. Small
/// blocks, up to 32 KiB, come back in whole sheaves after a grace period; larger ones are freed one
/// by one. Never blocks, but where there is no memory for even one sheaf: then it waits for a
/// grace period, unless the caller reads. May be called by readers.
///
/// # Safety
/// `block` came from this heap or is null, and nobody uses it but readers who have begun before
/// this call.
#[inline]
pub unsafe fn free_rcu(block: *mut u8) {
    // SAFETY: the same contract.
    if !unsafe { push_by_owner(block.expose_provenance(), CacheId::deferred_of_owner) } {
        // SAFETY: the same contract.
        unsafe { slow::free_rcu(block) };
    }
}

/// [`free_rcu`] for a caller that knows the layout: saves the look at the address.
///
/// # Safety
/// As there, and `block` came from [`alloc_layout`] or its kin with this layout.
#[inline(always)]
pub unsafe fn free_rcu_layout(block: *mut u8, layout: Layout) {
    // SAFETY: the same contract.
    if !unsafe { push_by_layout(block.expose_provenance(), layout, CacheId::deferred) } {
        // SAFETY: the same contract.
        unsafe { slow::free_rcu(block) };
    }
}

/// [`crate::malloc()`] for a layout: any alignment.
#[inline(always)]
#[must_use]
pub fn alloc_layout(layout: Layout) -> *mut u8 {
    let class = classes::of_layout(layout.size(), layout.align());
    if let (Some(class), true) = (class, is_fast(layout.size())) {
        // SAFETY: the fast path is open.
        let object = unsafe { pop(CacheId::of_class(class).allocs()) };
        if !is_sentinel(object) {
            return with_exposed_provenance_mut(object);
        }
    }
    slow::alloc_layout(layout)
}

/// [`crate::free`] for a caller that knows the layout: saves the look at the address.
///
/// # Safety
/// `block` came from [`alloc_layout`] or its kin with this layout, and nobody uses it any more.
#[inline(always)]
pub unsafe fn dealloc_layout(block: *mut u8, layout: Layout) {
    // SAFETY: the same contract.
    if !unsafe { push_by_layout(block.expose_provenance(), layout, CacheId::frees) } {
        // SAFETY: the same contract.
        unsafe { slow::free(block) };
    }
}
