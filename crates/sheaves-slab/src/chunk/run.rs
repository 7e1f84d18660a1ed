//! Runs of granules: taking, releasing and extending them.

use super::purge::{note_freed, purge_if_due};
use super::state::{CHUNKS, chunk, mask, position_of};
use crate::granule::Granule;
use crate::window::{CHUNK_BYTES, CHUNK_GRANULES, GRANULE_BYTES};

pub use super::state::Run;

/// Disables the requests for huge pages.
pub(crate) fn use_small_pages() {
    CHUNKS.lock().small_pages = true;
}

/// Takes `count` granules (1..=32) in a row, the first at a multiple of `align` granules (a power
/// of two up to 32). `None` when memory is out.
///
/// The owner map still says 0 for them; the caller writes it.
#[must_use]
pub fn take_run(count: usize, align: usize) -> Option<Run> {
    CHUNKS.lock().take_run(count, align)
}

/// A run on which the caller is building something.
#[derive(Debug)]
pub(crate) struct UnfinishedRun {
    pub(crate) run: Run,
    /// Its entry in the list of granules in progress, if one was vacant.
    entry: Option<usize>,
}

/// [`take_run`], for a run that is prepared without a lock. Until [`finish_run`] a child of a fork,
/// which cannot know the run yet, finds it free.
#[must_use]
pub(crate) fn begin_run(count: usize, align: usize) -> Option<UnfinishedRun> {
    let mut chunks = CHUNKS.lock();
    let run = chunks.take_run(count, align)?;
    let (index, bit) = position_of(run.first);
    let entry = chunks.in_progress.begin(index, mask(bit, count));
    Some(UnfinishedRun { run, entry })
}

/// Marks the run as in use. Called under the lock under which other threads learn of it.
pub(crate) fn finish_run(unfinished: &UnfinishedRun) {
    if let Some(entry) = unfinished.entry {
        CHUNKS.lock().in_progress.end(entry);
    }
}

/// Releases a run. The caller has cleared its entries in the owner map, and holds no lock, since
/// memory that was freed long ago may be returned to the system here.
pub fn give_run(first: Granule, count: usize) {
    give_run_without_purge(first, count);
    purge_if_due();
}

/// As [`give_run`], under locks. The caller calls [`purge_if_due`] after it has released them.
pub(crate) fn give_run_without_purge(first: Granule, count: usize) {
    let (index, bit) = position_of(first);
    let mut chunks = CHUNKS.lock();
    chunks.give(index, mask(bit, count), false);
    note_freed(&mut chunks);
}

/// Takes the `more` granules right after a run, if they are free. They may hold old contents. For
/// growing in place.
#[must_use]
pub fn extend_run(first: Granule, count: usize, more: usize) -> bool {
    let (index, bit) = position_of(first);
    let end = bit as usize + count;
    if end + more > CHUNK_GRANULES {
        return false;
    }
    let mut chunks = CHUNKS.lock();
    let wanted = mask(end as u32, more);
    if chunk(index).free & wanted != wanted {
        return false;
    }
    chunks.take(index, end as u32, more);
    true
}

/// Bytes of the heap by state: mapped, in use, free but not discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Address space of the heap.
    pub mapped_bytes: usize,
    /// Bytes of slabs and runs.
    pub used_bytes: usize,
    /// Bytes that are free, but still backed by memory.
    pub dirty_bytes: usize,
}

/// Reads the counters.
#[must_use]
pub fn footprint() -> Footprint {
    let chunks = CHUNKS.lock();
    Footprint {
        mapped_bytes: (chunks.count - chunks.skipped) * CHUNK_BYTES,
        used_bytes: chunks.used * GRANULE_BYTES,
        dirty_bytes: chunks.dirty * GRANULE_BYTES,
    }
}
