//! Everything that the fast paths leave: first use, empty and full sheaves, large sizes, bad input.

use core::alloc::Layout;
use core::ptr::{null_mut, with_exposed_provenance_mut};

use sheaves_slab::CacheId;
use sheaves_slab::granule::{Granule, NAMED, RUN_START};
use sheaves_slab::raw::by_id;
use sheaves_sys::{errno, report};

use crate::classes::{self, CLASSES, SIZES};
use crate::start::{is_debug, start};
use crate::{deferred, huge, large, redzone};

/// No block is larger: pointer differences must fit `isize`.
pub(crate) const BYTES_MAX: usize = isize::MAX as usize;

/// What an address is, as far as the heap knows.
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

/// A block of `size` bytes at a multiple of `align`, a power of two; null and `ENOMEM` otherwise.
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

/// The same without red zones; 0 when there is no memory.
pub(crate) fn alloc_plain(size: usize, align: usize) -> usize {
    match classes::of_layout(size, align) {
        Some(class) => by_id::alloc(CacheId::of_class(class)),
        None if large::serves(size, align) => large::alloc(size, align).0,
        None => huge::alloc(size, align),
    }
}

/// Zeroed memory; pages that come fresh from the system are not written again.
pub(crate) fn alloc_zeroed(size: usize) -> *mut u8 {
    // Only after the start is it known whether blocks have red zones.
    let is_plain = size <= BYTES_MAX && start() && !is_debug();
    if is_plain && large::serves(size, 1) {
        let (block, is_zero) = large::alloc(size, 1);
        if block != 0 {
            let block = with_exposed_provenance_mut::<u8>(block);
            if !is_zero {
                // SAFETY: the block is `size` bytes and ours alone.
                unsafe { block.write_bytes(0, size) };
            }
            return block;
        }
    }
    let block = crate::malloc(size);
    let is_huge = is_plain && size > large::LARGE_BYTES_MAX;
    if !block.is_null() && !is_huge {
        // SAFETY: the block is `size` bytes and ours alone.
        unsafe { block.write_bytes(0, size) };
    }
    block
}

/// What lies at an address; `None` when no block of ours starts or can start there.
pub(crate) fn look_up(address: usize) -> Option<Block> {
    // Where the heap had to step over another mapping, the system may put one of ours later.
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

/// True when an address lies in memory that is in use by some block: safe to read.
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

/// Frees a block, from where it really starts.
pub(crate) fn free_plain(address: usize) {
    match look_up(address) {
        // SAFETY: the caller gives the block up; the slow path checks the rest.
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
            // SAFETY: the caller gives the block up; the slow path checks the rest.
            Some(Block::Small { class }) => unsafe {
                by_id::free_rcu_checked(CacheId::of_class(class), address);
            },
            Some(Block::Large(granule)) => deferred::defer(address, large::bytes_of(granule)),
            Some(Block::Huge { bytes }) => deferred::defer(address, bytes),
            None => foreign(address, "free_rcu"),
        }
    });
}

/// Bytes that the user of a block may use.
pub(crate) fn usable(address: usize) -> usize {
    if is_debug() {
        return redzone::usable(address);
    }
    usable_plain(address)
}

/// The same without red zones.
pub(crate) fn usable_plain(address: usize) -> usize {
    match look_up(address) {
        Some(Block::Small { class }) => SIZES[class] as usize,
        Some(Block::Large(granule)) => large::bytes_of(granule),
        Some(Block::Huge { bytes }) => bytes,
        None => foreign(address, "malloc_usable_size or realloc"),
    }
}

/// Ends the process: the address is not that of a block.
#[cold]
pub(crate) fn foreign(address: usize, call: &str) -> ! {
    let what = match Granule::of(address).map(Granule::owner) {
        Some(0) => "which lies in free memory (double free?)",
        Some(NAMED) => "which belongs to a named cache",
        Some(_) => "which lies inside a block",
        None => "which is not from this heap",
    };
    report::die(format_args!("{call} of {address:#x}, {what}"))
}
