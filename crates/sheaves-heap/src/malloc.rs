//! The fast paths in Rust, inlined: for callers that know the layout, and for architectures without
//! [`crate::entry`], where the C functions are the same steps in assembly.
//!
//! ```text
//!   malloc: size -> class (one load) -> pop from the class's sheaf
//!   free:   address -> granule (arithmetic) -> entry (one load) -> class -> push
//! ```
//!
//! `free` checks that the address is from this heap and a multiple of 16; a caller that passes the
//! layout saves both checks. Everything else is in `slow.rs`.

use core::alloc::Layout;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::Ordering;

use sheaves_percpu::Access;
use sheaves_percpu::internal::{self as percpu, Word};
use sheaves_slab::internal::CacheId;
use sheaves_slab::internal::granule;
use sheaves_sys::stack::Frame;

use crate::classes;
use crate::slow;

/// True when the fast path is open and serves this size: at most [`classes::SMALL_BYTES_MAX`].
#[inline(always)]
fn is_fast(size: usize) -> bool {
    // Acquire pairs with the Release in `classes::open_fast_path`.
    size < percpu::TABLE.fast_bytes_end.load(Ordering::Acquire)
}

/// Pops an object from a word of free objects; `None` when the sheaf is empty.
///
/// # Safety
/// The fast path is enabled.
#[inline(always)]
unsafe fn pop(word: Word) -> Option<usize> {
    // SAFETY: the fast path was enabled after the engine's start.
    let access = unsafe { Access::of_started() };
    percpu::pop(access, word)
}

/// Pushes an object to a word of free or of deferred objects. False when the sheaf is full.
///
/// # Safety
/// The address is that of a block of this heap that the caller no longer uses.
#[inline(always)]
unsafe fn push(word: Word, address: usize) -> bool {
    // SAFETY: a block of this heap proves that the engine has started.
    let access = unsafe { Access::of_started() };
    // SAFETY: objects are even, and the caller no longer uses this one.
    unsafe { percpu::push(access, word, address) }
}

/// Pushes an object to the word of its entry in the owner map. False when it has no entry or the
/// sheaf is full.
///
/// # Safety
/// As [`crate::free`].
#[inline(always)]
unsafe fn push_by_address(address: usize, word_of: impl FnOnce(usize) -> Word) -> bool {
    let is_aligned = address.is_multiple_of(classes::QUANTUM_BYTES);
    match granule::entry_of(address) {
        // SAFETY: the same contract; an address with an entry is one of this heap.
        Some(entry) if is_aligned => unsafe { push(word_of(entry), address) },
        _ => false,
    }
}

/// The same by its layout, which has the entry of its class. False when no class serves it or the
/// sheaf is full.
///
/// # Safety
/// As [`dealloc_layout`].
#[inline(always)]
unsafe fn push_by_layout(
    address: usize,
    layout: Layout,
    word_of: impl FnOnce(usize) -> Word,
) -> bool {
    match classes::main_of_layout(layout.size(), layout.align()) {
        // SAFETY: the same contract.
        Some(main) => unsafe { push(word_of(main.offset()), address) },
        None => false,
    }
}

/// [`crate::malloc()`], inlined.
#[inline(always)]
#[must_use]
pub fn malloc_inline(size: usize) -> *mut u8 {
    pop_by_size(size).unwrap_or_else(|| slow::malloc(size))
}

/// [`crate::malloc()`] for a caller that knows its own caller.
#[inline(always)]
pub(crate) fn malloc_from(size: usize, frame: Frame) -> *mut u8 {
    pop_by_size(size).unwrap_or_else(|| slow::alloc(size, classes::QUANTUM_BYTES, frame))
}

#[inline(always)]
fn pop_by_size(size: usize) -> Option<*mut u8> {
    if !is_fast(size) {
        return None;
    }
    // SAFETY: the fast path serves this size.
    let word = unsafe { classes::word_of_size_unchecked(size) };
    // SAFETY: the fast path is enabled.
    unsafe { pop(word) }.map(with_exposed_provenance_mut)
}

/// [`crate::free`], inlined.
///
/// # Safety
/// As [`crate::free`].
#[inline(always)]
pub unsafe fn free_inline(block: *mut u8) {
    // SAFETY: the same contract.
    if !unsafe { push_by_address(block.expose_provenance(), CacheId::main_of_entry) } {
        // SAFETY: the same contract.
        unsafe { slow::free(block) };
    }
}

/// Frees a block after a grace period ([`sheaves_rcu::read`]), like the kernel's `kfree_rcu`.
///
/// As cheap as `free`: one push; it writes nothing into the block and wakes no thread. Blocks of up
/// to 1 MiB (hardened: below 256 KiB) return in whole sheaves after a grace period; larger ones are
/// freed one by one. May be called by readers. When the slot's sheaf is full it takes a short lock.
/// It waits for a grace period only when there is no memory for a sheaf; a reader cannot wait: then
/// the block is never freed, and the first one is reported.
///
/// # Safety
/// `block` came from this heap or is null, and only readers that began before this call still use
/// it.
#[inline]
pub unsafe fn free_rcu(block: *mut u8) {
    // SAFETY: the same contract.
    if !unsafe { push_by_address(block.expose_provenance(), CacheId::deferred_of_entry) } {
        // SAFETY: the same contract.
        unsafe { slow::free_rcu(block) };
    }
}

/// [`free_rcu`] for a caller that knows the layout: saves the checks of the address.
///
/// # Safety
/// As there, and `block` came from [`alloc_layout`] or its variants with this layout.
#[inline(always)]
pub unsafe fn free_rcu_layout(block: *mut u8, layout: Layout) {
    // SAFETY: the same contract.
    if !unsafe { push_by_layout(block.expose_provenance(), layout, CacheId::deferred_of_entry) } {
        // SAFETY: the same contract.
        unsafe { slow::free_rcu_layout(block, layout.size(), layout.align()) };
    }
}

/// [`crate::malloc()`] for a layout with any alignment.
#[inline(always)]
#[must_use]
pub fn alloc_layout(layout: Layout) -> *mut u8 {
    // Acquire pairs with the Release in `classes::open_fast_path`.
    if layout.size() < percpu::TABLE.layout_bytes_end.load(Ordering::Acquire)
        && let Some(main) = classes::main_of_layout(layout.size(), layout.align())
        // SAFETY: the fast path was enabled after the engine's start.
        && let access = unsafe { Access::of_started() }
        && let Some(object) = percpu::pop_source(access, main)
    {
        return with_exposed_provenance_mut(object);
    }
    slow::alloc_layout(layout.size(), layout.align())
}

/// [`crate::free`] for a caller that knows the layout: saves the checks of the address.
///
/// # Safety
/// `block` came from [`alloc_layout`] or its variants with this layout, and is not used any more.
#[inline(always)]
pub unsafe fn dealloc_layout(block: *mut u8, layout: Layout) {
    // SAFETY: the same contract.
    if !unsafe { push_by_layout(block.expose_provenance(), layout, CacheId::main_of_entry) } {
        // SAFETY: the same contract.
        unsafe { slow::dealloc_layout(block, layout.size(), layout.align()) };
    }
}
