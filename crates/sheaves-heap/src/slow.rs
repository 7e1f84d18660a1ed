//! The slow paths: first use, empty and full sheaves, large sizes, bad input.

use core::alloc::Layout;
use core::ptr::{null_mut, with_exposed_provenance_mut};

use sheaves_slab::CacheId;
use sheaves_slab::granule::{Granule, NAMED, RUN_START};
use sheaves_slab::raw::by_id;
use sheaves_sys::{errno, report};

use crate::classes::{self, CLASSES, SIZES};
use crate::start::{is_debug, start};
use crate::{deferred, huge, large, redzone};

/// The largest size of a block: pointer differences must fit `isize`.
pub(crate) const BYTES_MAX: usize = isize::MAX as usize;

/// The kind of block at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// In a slab of this size class.
    Small { class: usize },
    /// The start of a run of pages.
    Large(Granule),
    /// A mapping of its own.
    Huge { bytes: usize },
}

#[cold]
#[inline(never)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    alloc(size, classes::QUANTUM_BYTES)
}

#[cold]
#[inline(never)]
pub(crate) fn alloc_layout(layout: Layout) -> *mut u8 {
    alloc(layout.size(), layout.align())
}

/// A block of `size` bytes at a multiple of `align`, a power of two; null and `ENOMEM` when memory
/// is out.
pub(crate) fn alloc(size: usize, align: usize) -> *mut u8 {
    let block = if size > BYTES_MAX || !start() {
        0
    } else if is_debug() {
        redzone::alloc(size, align)
    } else {
        alloc_plain(size, align)
    };
    if block == 0 {
        errno::set(errno::ENOMEM);
        return null_mut();
    }
    with_exposed_provenance_mut(block)
}

/// [`alloc`] without red zones; 0 when memory is out.
pub(crate) fn alloc_plain(size: usize, align: usize) -> usize {
    match classes::of_layout(size, align) {
        Some(class) => by_id::alloc(CacheId::of_class(class)),
        None if large::serves(size, align) => large::alloc(size, align).0,
        None => huge::alloc(size, align),
    }
}

/// Zeroed memory; pages that are fresh from the kernel are not written again.
pub(crate) fn alloc_zeroed(size: usize) -> *mut u8 {
    // Whether blocks have red zones is known only after the start.
    let is_plain = size <= BYTES_MAX && start() && !is_debug();
    if is_plain && large::serves(size, 1) {
        let (block, is_zero) = large::alloc(size, 1);
        if block != 0 {
            let block = with_exposed_provenance_mut::<u8>(block);
            if !is_zero {
                // SAFETY: the block has `size` bytes, and no other thread knows it.
                unsafe { block.write_bytes(0, size) };
            }
            return block;
        }
    }
    let block = crate::malloc(size);
    let is_huge = is_plain && size > large::LARGE_BYTES_MAX;
    if !block.is_null() && !is_huge {
        // SAFETY: the block has `size` bytes, and no other thread knows it.
        unsafe { block.write_bytes(0, size) };
    }
    block
}

/// The block at an address; `None` when no block of this heap starts or can start there.
pub(crate) fn look_up(address: usize) -> Option<Block> {
    // The window may have skipped a range that another mapping occupied; a huge block may be there
    // now.
    let Some(granule) = Granule::of(address).filter(|granule| granule.owner() != 0) else {
        return huge::bytes_of(address).map(|bytes| Block::Huge { bytes });
    };
    let owner = granule.owner();
    if let Some(id) = CacheId::from_owner(owner) {
        let class = id.class();
        return (class < CLASSES).then_some(Block::Small { class });
    }
    (owner == RUN_START && granule.address() == address).then_some(Block::Large(granule))
}

/// True when an address is in memory that a block uses, so that it is safe to read.
pub(crate) fn is_in_use(address: usize) -> bool {
    Granule::of(address).is_some_and(|granule| granule.owner() != 0) || huge::contains(address)
}

/// # Safety
/// As [`crate::free`].
#[cold]
#[inline(never)]
pub unsafe extern "C" fn free(block: *mut u8) {
    if block.is_null() {
        return;
    }
    errno::preserve(|| {
        let address = block.expose_provenance();
        let address = if is_debug() { redzone::check(address) } else { address };
        free_plain(address);
    });
}

/// Frees a block by its real start, below any red zone.
pub(crate) fn free_plain(address: usize) {
    match look_up(address) {
        // SAFETY: the caller no longer uses the block; `free_checked` checks the rest.
        Some(Block::Small { class }) => unsafe {
            by_id::free_checked(CacheId::of_class(class), address);
        },
        Some(Block::Large(granule)) => large::free(granule),
        Some(Block::Huge { .. }) => huge::free(address),
        None => foreign(address, "free"),
    }
}

/// # Safety
/// As [`crate::free_rcu`].
#[cold]
#[inline(never)]
pub(crate) unsafe extern "C" fn free_rcu(block: *mut u8) {
    if block.is_null() {
        return;
    }
    errno::preserve(|| {
        let address = block.expose_provenance();
        let address = if is_debug() { redzone::check(address) } else { address };
        match look_up(address) {
            // SAFETY: the caller no longer uses the block; `free_rcu_checked` checks the rest.
            Some(Block::Small { class }) => unsafe {
                by_id::free_rcu_checked(CacheId::of_class(class), address);
            },
            Some(Block::Large(granule)) => deferred::defer(address, large::bytes_of(granule)),
            Some(Block::Huge { bytes }) => deferred::defer(address, bytes),
            None => foreign(address, "free_rcu"),
        }
    });
}

/// Bytes that the caller may use in a block.
pub(crate) fn usable(address: usize) -> usize {
    if is_debug() {
        return redzone::usable(address);
    }
    usable_plain(address)
}

/// [`usable`] without red zones.
pub(crate) fn usable_plain(address: usize) -> usize {
    match look_up(address) {
        Some(Block::Small { class }) => SIZES[class] as usize,
        Some(Block::Large(granule)) => large::bytes_of(granule),
        Some(Block::Huge { bytes }) => bytes,
        None => foreign(address, "malloc_usable_size or realloc"),
    }
}

/// Aborts the process: no block is at the address.
#[cold]
pub(crate) fn foreign(address: usize, call: &str) -> ! {
    let what = match Granule::of(address).map(Granule::owner) {
        Some(0) => "which is in free memory (double free?)",
        Some(NAMED) => "which belongs to a named cache",
        Some(_) => "which is inside a block",
        None => "which is not from this heap",
    };
    report::die(format_args!("{call} of {address:#x}, {what}"))
}
