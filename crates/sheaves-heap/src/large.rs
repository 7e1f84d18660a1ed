//! Blocks of 32 KiB to 1 MiB: runs of granules in the heap's chunks.

use core::sync::atomic::Ordering;

use sheaves_slab::chunk;
use sheaves_slab::granule::Granule;
use sheaves_slab::slab::header;
use sheaves_slab::window::{CHUNK_BYTES, GRANULE_BYTES};

use crate::classes::SMALL_BYTES_MAX;

/// The largest block that is a run, in bytes.
pub(crate) const LARGE_BYTES_MAX: usize = CHUNK_BYTES / 2;

/// True when a block of this size and alignment is a run of granules.
pub(crate) fn serves(size: usize, align: usize) -> bool {
    size <= LARGE_BYTES_MAX && align <= LARGE_BYTES_MAX && size.max(align) > SMALL_BYTES_MAX
}

/// Address of a run (0 when memory is out), and whether it reads as zeros.
pub(crate) fn alloc(size: usize, align: usize) -> (usize, bool) {
    let count = size.div_ceil(GRANULE_BYTES).max(1);
    let Some(run) = chunk::take_run(count, align.div_ceil(GRANULE_BYTES)) else {
        return (0, false);
    };
    // Relaxed: published with the block's address.
    header(run.first).run_granules.store(count as u32, Ordering::Relaxed);
    run.first.set_owner_of_run(count);
    (run.first.address(), run.is_zero)
}

fn granules(first: Granule) -> usize {
    // Relaxed: a thread that has the block's address sees its header.
    header(first).run_granules.load(Ordering::Relaxed) as usize
}

pub(crate) fn bytes_of(first: Granule) -> usize {
    granules(first) * GRANULE_BYTES
}

pub(crate) fn free(first: Granule) {
    let count = granules(first);
    first.clear_owner(count);
    chunk::give_run(first, count);
}

/// Resizes a run in place; false when the granules after it are in use.
pub(crate) fn resize_in_place(first: Granule, size: usize) -> bool {
    let (old, new) = (granules(first), size.div_ceil(GRANULE_BYTES));
    if new * GRANULE_BYTES > LARGE_BYTES_MAX || size <= SMALL_BYTES_MAX {
        return false;
    }
    if new > old && !chunk::extend_run(first, old, new - old) {
        return false;
    }
    // Relaxed: as in `alloc`.
    header(first).run_granules.store(new as u32, Ordering::Relaxed);
    if new > old {
        first.set_owner_of_run(new);
    } else if new < old {
        let rest = first.after(new);
        rest.clear_owner(old - new);
        chunk::give_run(rest, old - new);
    }
    true
}
