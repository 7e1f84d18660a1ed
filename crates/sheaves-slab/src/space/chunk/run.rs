//! Runs of granules: taking and releasing them.

use super::advice::HugePages;
use super::bits::mask;
use super::deal::note_freed;
use super::state::{CHUNKS, granule_of, position_of};
use crate::space::granule::Granule;
use crate::space::slab;
use crate::space::window::GRANULE_BYTES;

/// A run on which the caller is building a slab.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) first: Granule,
    /// All of it reads as zero.
    pub(crate) reads_zero: bool,
    /// Its entry in the list of granules in progress, if one was vacant.
    entry: Option<usize>,
}

/// Takes `count` granules (1..=32) in a row, the first at a multiple of `align` granules (a power
/// of two up to 32). `None` when memory is out.
///
/// The owner map still says 0 for them; the caller writes it. Until [`finish_run`] a child of a
/// fork, which cannot know the run yet, finds it free.
#[must_use]
pub(crate) fn begin_run(count: usize, align: usize) -> Option<Run> {
    let mut chunks = CHUNKS.lock();
    let (index, bit, reads_zero) = chunks.take_run(count, align)?;
    let entry = chunks.in_progress.begin(index, mask(bit, count));
    Some(Run { first: granule_of(index, bit), reads_zero, entry })
}

/// Marks the run as in use. Called under the cache's lock, after the run's slab was listed.
pub(crate) fn finish_run(run: &Run) {
    if let Some(entry) = run.entry {
        CHUNKS.lock().in_progress.end(entry);
    }
}

/// Releases a run; may be called under locks. The caller has cleared its entries in the owner map,
/// and calls [`do_due_after_free`](super::do_due_after_free) when it holds no lock.
pub(crate) fn release_run(first: Granule, count: usize) {
    let (index, bit) = position_of(first);
    let mut chunks = CHUNKS.lock();
    chunks.give(index, mask(bit, count), false);
    note_freed(&mut chunks, count);
}

/// Called in the parent after a fork: its chunks ask for no more huge pages.
pub(crate) fn note_child() {
    if let Some(mut chunks) = CHUNKS.try_lock()
        && chunks.huge_pages == HugePages::Auto
    {
        chunks.huge_pages = HugePages::Never;
    }
}

/// Bytes of the heap by state, and bytes that changed their state so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Address space of the heap.
    pub mapped_bytes: usize,
    /// Bytes of slabs and runs.
    pub used_bytes: usize,
    /// Bytes that are free, but still backed by memory.
    pub dirty_bytes: usize,
    /// Free bytes with old contents that were returned to the kernel so far.
    pub purged_bytes: u64,
    /// Bytes in pages between allocated objects that were returned to the kernel so far.
    pub holes_bytes: u64,
    /// Bytes that were used again after they had been returned, so far; holes are not counted.
    pub refilled_bytes: u64,
}

/// Reads the counters.
#[must_use]
pub fn footprint() -> Footprint {
    let chunks = CHUNKS.lock();
    Footprint {
        mapped_bytes: (chunks.end - chunks.skipped) * GRANULE_BYTES,
        used_bytes: chunks.used * GRANULE_BYTES,
        dirty_bytes: chunks.dirty * GRANULE_BYTES,
        purged_bytes: chunks.discarded * GRANULE_BYTES as u64,
        holes_bytes: slab::holes_bytes(),
        refilled_bytes: chunks.refilled * GRANULE_BYTES as u64,
    }
}
