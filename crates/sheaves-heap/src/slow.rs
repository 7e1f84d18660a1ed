//! The slow paths: first use, empty and full sheaves, large sizes, bad input.

use core::ptr::with_exposed_provenance_mut;

use sheaves_rcu::defer::Channel;
use sheaves_slab::internal::CacheId;
use sheaves_slab::internal::by_id;
use sheaves_slab::internal::checking::{is_debug, is_hardened};
use sheaves_slab::internal::last_frees;
use sheaves_slab::internal::sampling::{self, AllocRequest};
use sheaves_sys::stack::Frame;
use sheaves_sys::{errno, probe, report};

use crate::block::{self, Block};
use crate::start::start;
use crate::{classes, large, profile, redzone};

/// The largest size of a block: pointer differences must fit `isize`.
pub(crate) const BYTES_MAX: usize = isize::MAX as usize;

sheaves_percpu::with_frame! {
    /// The slow half of `malloc`.
    #[cold]
    pub [] fn malloc(size: usize) -> *mut u8 = malloc_from;

    /// The slow half of `alloc_layout`.
    #[cold]
    pub(crate) [] fn alloc_layout(size: usize, align: usize) -> *mut u8 = alloc_layout_from;

    /// The slow half of `free`.
    ///
    /// # Safety
    /// As [`crate::free`].
    #[cold]
    pub [unsafe] fn free(block: *mut u8) -> () = free_from;

    /// The slow half of `dealloc_layout`.
    ///
    /// # Safety
    /// As [`crate::dealloc_layout`].
    #[cold]
    pub(crate) [unsafe] fn dealloc_layout(block: *mut u8, size: usize, align: usize) -> () =
        dealloc_layout_from;

    /// The slow half of `free_rcu`.
    ///
    /// # Safety
    /// As [`crate::free_rcu`].
    #[cold]
    pub(crate) [unsafe] fn free_rcu(block: *mut u8) -> () = free_rcu_from;

    /// The slow half of `free_rcu_layout`.
    ///
    /// # Safety
    /// As [`crate::free_rcu_layout`].
    #[cold]
    pub(crate) [unsafe] fn free_rcu_layout(block: *mut u8, size: usize, align: usize) -> () =
        free_rcu_layout_from;
}

/// [`crate::malloc()`] by the slow path, on behalf of the function that the frame is of.
pub extern "C" fn malloc_from(size: usize, frame: Frame) -> *mut u8 {
    alloc(size, classes::QUANTUM_BYTES, frame)
}

extern "C" fn alloc_layout_from(size: usize, align: usize, frame: Frame) -> *mut u8 {
    sampling::note_frees_by_layout();
    alloc(size, align, frame)
}

/// A block of `size` bytes at a multiple of `align`, a power of two; null and `ENOMEM` when memory
/// is out.
pub(crate) fn alloc(size: usize, align: usize, frame: Frame) -> *mut u8 {
    alloc_and_tell_zero(size, align, frame).0
}

/// [`alloc`], and whether the block reads as zeros.
#[inline]
fn alloc_and_tell_zero(size: usize, align: usize, frame: Frame) -> (*mut u8, bool) {
    // What the fast path of `malloc` does not serve.
    if size > classes::SMALL_BYTES_MAX || align > classes::QUANTUM_BYTES {
        return alloc_other(size, align, frame);
    }
    match block::pop_hardened(size) {
        Some(block) => (with_exposed_provenance_mut(block), true),
        None => alloc_slow(size, align, frame),
    }
}

#[inline(never)]
fn alloc_other(size: usize, align: usize, frame: Frame) -> (*mut u8, bool) {
    match block::pop(size, align) {
        Some((block, reads_zero)) => (with_exposed_provenance_mut(block), reads_zero),
        None => alloc_slow(size, align, frame),
    }
}

#[cold]
#[inline(never)]
fn alloc_slow(size: usize, align: usize, frame: Frame) -> (*mut u8, bool) {
    let can_serve = size <= BYTES_MAX && start();
    if can_serve {
        classes::reopen_fast_path();
    }
    let (block, reads_zero) = if !can_serve {
        (0, false)
    } else if is_debug() && !classes::is_zero_sized(size, align) {
        redzone::alloc(size, align, frame)
    } else {
        let request = AllocRequest { bytes: size, align, frame };
        match block::alloc(size, align, &request) {
            // What large blocks have left idle counts for limits of the process.
            (0, _) if large::trim(0) != 0 => block::alloc(size, align, &request),
            other => other,
        }
    };
    if block == 0 {
        probe::alloc_failed(size, align);
        if can_serve {
            profile::note_failure();
        }
        errno::set(errno::ENOMEM);
    }
    (with_exposed_provenance_mut(block), reads_zero)
}

/// Zeroed memory; pages that are fresh from the kernel are zero and are not written.
pub(crate) fn alloc_zeroed(size: usize, frame: Frame) -> *mut u8 {
    let (block, reads_zero) = alloc_and_tell_zero(size, classes::QUANTUM_BYTES, frame);
    if !block.is_null() && !reads_zero {
        // Also a large block: to discard its pages costs five times that in page faults.
        // SAFETY: the block has `size` bytes, and no other thread knows it.
        unsafe { block.write_bytes(0, size) };
    }
    block
}

/// The start of a block, below any red zone; aborts the process if that is damaged.
fn checked_start_of(block: *mut u8) -> usize {
    let address = block.expose_provenance();
    if has_zones(address) { redzone::check(address).0 } else { address }
}

/// [`crate::free()`] by the slow path, on behalf of the function that the frame is of.
///
/// # Safety
/// As [`crate::free`].
pub(crate) unsafe extern "C" fn free_from(block: *mut u8, frame: Frame) {
    // SAFETY: the caller no longer uses the block.
    if !unsafe { by_id::free_quick(block.expose_provenance()) } {
        // SAFETY: the same contract.
        unsafe { free_other(block, frame) };
    }
}

/// # Safety
/// As [`crate::free`].
#[cold]
#[inline(never)]
unsafe fn free_other(block: *mut u8, frame: Frame) {
    if block.is_null() {
        return;
    }
    errno::preserve(|| {
        let start = checked_start_of(block);
        if is_debug() {
            last_frees::note(block.expose_provenance(), frame);
        }
        block::free(start, frame);
    });
}

/// # Safety
/// As [`crate::dealloc_layout`].
unsafe extern "C" fn dealloc_layout_from(block: *mut u8, size: usize, align: usize, frame: Frame) {
    check_size(block, size, align, true);
    // SAFETY: the same contract.
    unsafe { free_from(block, frame) };
}

/// Checks the size and the alignment with which a block is about to be freed, in a hardened
/// process: aborts the process if it was allocated with others. One that `realloc` may have resized
/// in place may be of another size class, if it has room for the size.
pub fn check_size(block: *const u8, size: usize, align: usize, may_be_resized: bool) {
    if block.is_null() || !is_hardened() {
        return;
    }
    let address = block.expose_provenance();
    let is_right = if has_zones(address) {
        redzone::check(address).1 == size
    } else {
        block::is_of_size(address, size, align.max(classes::QUANTUM_BYTES), may_be_resized)
    };
    if !is_right {
        let usable = usable(address);
        report::die(format_args!(
            "free of {address:#x} with size {size}: the block has {usable} usable bytes and was \
             allocated with another size"
        ));
    }
    check_align(block, align);
}

/// Likewise for a free with an alignment alone.
pub fn check_align(block: *const u8, align: usize) {
    if is_hardened() && !block.addr().is_multiple_of(align.max(1)) {
        report::die(format_args!("free of {block:p} with alignment {align}: it has a smaller one"));
    }
}

/// Large blocks that are freed after a grace period.
static LARGE: Channel = Channel::new("large blocks", |block| {
    block::free(block.expose_provenance(), Frame::NONE);
});

/// # Safety
/// As [`crate::free_rcu_layout`].
unsafe extern "C" fn free_rcu_layout_from(block: *mut u8, size: usize, align: usize, frame: Frame) {
    check_size(block, size, align, true);
    // SAFETY: the same contract.
    unsafe { free_rcu_from(block, frame) };
}

/// # Safety
/// As [`crate::free_rcu`].
unsafe extern "C" fn free_rcu_from(block: *mut u8, frame: Frame) {
    if block.is_null() {
        return;
    }
    errno::preserve(|| {
        let address = checked_start_of(block);
        match block::look_up(address) {
            // SAFETY: the caller no longer uses the block; `check_and_free_rcu` checks the rest.
            Some(Block::Object { class }) => unsafe {
                by_id::check_and_free_rcu(CacheId::of_class(class), address, frame);
            },
            Some(Block::Large { bytes }) => {
                sampling::defer(address, frame);
                // SAFETY: as above.
                unsafe { LARGE.free_later(with_exposed_provenance_mut(address), bytes) };
            }
            // SAFETY: as above.
            Some(Block::Trap { .. }) => unsafe { by_id::free_rcu_trap(address, frame) },
            None => block::foreign(address, "free_rcu"),
        }
    });
}

/// Bytes that the caller may use in a block.
pub(crate) fn usable(address: usize) -> usize {
    if has_zones(address) { redzone::check(address).1 } else { block::usable(address) }
}

/// True in debug mode, except for blocks of size 0.
fn has_zones(address: usize) -> bool {
    is_debug() && block::look_up(address) != Some(Block::Object { class: classes::EMPTY_BLOCKS })
}
