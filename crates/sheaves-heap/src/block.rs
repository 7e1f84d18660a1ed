//! Blocks without red zones: from a size to a block, and from an address to its block.

use core::sync::atomic::Ordering;

use sheaves_percpu::Access;
use sheaves_percpu::internal::{self as percpu, TABLE, pop_source};
use sheaves_slab::internal::granule::Granule;
use sheaves_slab::internal::sampling::AllocRequest;
use sheaves_slab::internal::trap;
use sheaves_slab::internal::{CacheId, checking, slab};
use sheaves_slab::internal::{bounds, by_id};
use sheaves_sys::stack::Frame;
use sheaves_sys::{map, report};

use crate::classes::SMALL_BYTES_MAX;
use crate::{classes, large, start};

/// The kind of block at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// In a slab of this size class.
    Object { class: usize },
    /// A mapping of its own.
    Large { bytes: usize },
    /// A guarded one, of a size class.
    Trap { bytes: usize },
}

/// Pops a block for any request that a class serves; `None` when the sheaf is empty, and in a
/// hardened process. Also tells whether the block reads as zeros.
#[inline]
pub(crate) fn pop(size: usize, align: usize) -> Option<(usize, bool)> {
    // Acquire pairs with the Release in `classes::open_fast_path`.
    if TABLE.layout_bytes_end.load(Ordering::Acquire) == 0 {
        return None;
    }
    // SAFETY: the fast path was enabled after the engine's start.
    let access = unsafe { Access::of_started() };
    if let Some(main) = classes::main_of_layout(size, align) {
        return Some((pop_source(access, main)?, false));
    }
    let class = classes::of_middle(size, align)?;
    let object = pop_source(access, CacheId::of_class(class).main())?;
    Some((object, classes::is_alone(class) && by_id::request_of_alone(object, size) == 0))
}

/// Pops a block for a request of up to [`SMALL_BYTES_MAX`] in a hardened process, which reads as
/// zeros. `None` when the sheaf is empty, and in other modes.
#[inline]
pub(crate) fn pop_hardened(size: usize) -> Option<usize> {
    // Acquire pairs with the Release in `classes::open_fast_path`. A tool may have closed it.
    if size > SMALL_BYTES_MAX
        || !checking::is_hardened()
        || TABLE.fast_bytes_end.load(Ordering::Acquire) == 0
    {
        return None;
    }
    // SAFETY: just tested.
    let stock = unsafe { classes::word_of_size_unchecked(size) };
    // SAFETY: the fast path was enabled after the engine's start.
    let object = percpu::pop(unsafe { Access::of_started() }, stock)?;
    if checking::is_exact() && size != 0 {
        bounds::close_class(CacheId::of_stock(stock), object, size);
    }
    Some(object)
}

/// Address of a new block, 0 when memory is out, and whether it reads as zeros.
pub(crate) fn alloc(size: usize, align: usize, request: &AllocRequest) -> (usize, bool) {
    let Some(class) = classes::of_request(size, align) else {
        return large::alloc(size, align, request);
    };
    if !start::make(class) {
        return (0, false);
    }
    let object = by_id::alloc(CacheId::of_class(class), request);
    let is_alone = classes::is_alone(class);
    let is_new = is_alone && object != 0 && by_id::request_of_alone(object, request.bytes) == 0;
    if checking::is_hardened() {
        if object != 0 {
            bounds::close(CacheId::of_class(class), object, size);
        }
        (object, !checking::is_debug())
    } else if is_alone && object == 0 {
        // The window may be full, or a part of it occupied.
        large::alloc(size, align, request)
    } else {
        (object, is_new)
    }
}

/// The block at an address; `None` when no block of this heap starts or can start there.
pub(crate) fn look_up(address: usize) -> Option<Block> {
    if trap::contains(address) {
        return Some(Block::Trap { bytes: trap::bytes_of(address) });
    }
    // The window may have skipped a range that another mapping occupied; a large block may be there
    // now.
    let Some(granule) = slab_granule_of(address) else {
        return large::bytes_of(address).map(|bytes| Block::Large { bytes });
    };
    slab::size_class_cache_of(granule).map(|id| Block::Object { class: id.class() })
}

fn slab_granule_of(address: usize) -> Option<Granule> {
    Granule::of(address).filter(|granule| granule.entry() != 0)
}

/// True when an address is in a slab.
pub(crate) fn is_in_slab(address: usize) -> bool {
    slab_granule_of(address).is_some()
}

/// True when an address is in memory that a block uses, so that it is safe to read.
pub(crate) fn is_in_use(address: usize) -> bool {
    is_in_slab(address) && !is_freed(address) || large::contains(address)
}

/// True in a hardened process when an address is in an object that was freed.
fn is_freed(address: usize) -> bool {
    checking::is_hardened() && by_id::is_freed(address)
}

/// Frees a block.
pub(crate) fn free(address: usize, frame: Frame) {
    match look_up(address) {
        // SAFETY: the caller no longer uses the block; `check_and_free` checks the rest.
        Some(Block::Object { class }) => unsafe {
            by_id::check_and_free(CacheId::of_class(class), address);
        },
        Some(Block::Large { .. }) if large::free(address) => {}
        // SAFETY: as above.
        Some(Block::Trap { .. }) => unsafe { by_id::free_trap(address, frame) },
        Some(Block::Large { .. }) | None => foreign(address, "free"),
    }
}

/// Bytes of a block that its user may use.
pub(crate) fn usable(address: usize) -> usize {
    usable_in(address, look_up(address))
}

/// [`usable`] of what was found at an address.
fn usable_in(address: usize, block: Option<Block>) -> usize {
    match block {
        Some(Block::Object { class }) if has_bounds(class) => {
            by_id::check_allocated(CacheId::of_class(class), address);
            bounds::requested(CacheId::of_class(class), address)
        }
        Some(Block::Object { class }) => classes::usable_bytes(class),
        Some(Block::Large { bytes } | Block::Trap { bytes }) => bytes,
        None => foreign(address, "malloc_usable_size or realloc"),
    }
}

/// True where the requested bytes of a block of a size class are known.
fn has_bounds(class: usize) -> bool {
    checking::is_exact() && class != classes::EMPTY_BLOCKS
}

/// True if the block at an address was allocated with this size and alignment, or if it may have
/// been resized in place to this size. For hardened processes, which have no traps.
pub(crate) fn is_of_size(address: usize, size: usize, align: usize, may_be_resized: bool) -> bool {
    if size > isize::MAX as usize {
        return false;
    }
    let (block, wanted) = (look_up(address), classes::of_request(size, align));
    let usable = usable_in(address, block);
    let is_same = match block {
        Some(Block::Object { class }) if has_bounds(class) => return size == usable,
        Some(Block::Object { class }) => wanted == Some(class),
        // A block of no bytes has a page, too.
        _ => wanted.is_none() && size.max(1) > usable.saturating_sub(map::page_bytes()),
    };
    // What `realloc` does not move has half of its room at least. But `calloc` may have found an
    // alignment by chance, with the class of another one.
    size <= usable && (is_same || may_be_resized && size > usable / 4)
}

/// Aborts the process: no block is at the address.
#[cold]
pub(crate) fn foreign(address: usize, call: &str) -> ! {
    let what = match Granule::of(address).map(Granule::entry) {
        Some(entry) if entry == 0 || is_freed(address) => "which is in free memory (double free?)",
        Some(_) => "which belongs to a named cache",
        None if large::hardened::is_retired(address) => "which is in free memory (double free?)",
        None => "which is not from this heap",
    };
    report::die(format_args!("{call} of {address:#x}, {what}"))
}
