//! Discarding free granules: their pages go back to the kernel.

use sheaves_sys::lock::assert_none_held;
use sheaves_sys::{clock, map, probe};

use super::advice::Advice;
use super::bits::{lowest, mask};
use super::dense::HOLED;
use super::due;
use super::state::{CHUNKS, Chunks, granule_of, position_of};
use crate::space::granule::Granule;
use crate::space::slab;
use crate::space::window::{CHUNK_GRANULES, GRANULE_BYTES};
use crate::space::work;

/// The free granules that are to be discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Free {
    /// Those freed before the chunk's last tick. This makes one.
    Old,
    /// Those that hold old contents.
    Dirty,
    /// All free ones.
    All,
}

/// What a thread of the program discards at once, outside of huge pages: 256 KiB take 20 us.
pub(crate) const PIECE_GRANULES: usize = 4;

/// One tick of a chunk: discards what was freed before the last one, a piece of that. Returns the
/// number of granules, and is to be called again if these are [`PIECE_GRANULES`]; `None` behind the
/// last chunk.
pub(crate) fn tick(index: usize) -> Option<usize> {
    let count = CHUNKS.lock().count;
    (index < count).then(|| discard_in_chunk(index, Free::Old, PIECE_GRANULES))
}

/// Notes that there was a tick; returns the bytes that are dirty after it.
pub(crate) fn note_tick() -> usize {
    due::note_tick(clock::coarse_ms());
    CHUNKS.lock().dirty * GRANULE_BYTES
}

/// Holes of a slab in the chunk of a granule are discarded: the chunk asks for no huge
/// page, so that the kernel does not fill them again, until it has free granules.
pub fn note_holes(granule: Granule) {
    let (index, _) = position_of(granule);
    CHUNKS.lock().ask_no_more(index, HOLED);
}

/// Returns free memory to the kernel at once, with the headers of wholly free chunks, until at most
/// `keep_bytes` of it hold old contents. Keeps what has the lowest addresses. If none is kept, the
/// end of the heap is unmapped as far as it is free. Returns the bytes of heap that were returned.
#[cold]
pub fn trim(keep_bytes: usize) -> usize {
    assert_none_held();
    let (count, keep) = (CHUNKS.lock().count, keep_bytes / GRANULE_BYTES);
    let (keeps_any, mut granules) = (keep_bytes != 0, 0);
    let free = if keeps_any { Free::Dirty } else { Free::All };
    for index in (0..count).rev() {
        if keeps_any && CHUNKS.lock().dirty <= keep {
            break;
        }
        granules += discard_in_chunk(index, free, usize::MAX);
    }
    if !keeps_any {
        CHUNKS.lock().shrink();
    }
    granules * GRANULE_BYTES
}

/// Granules of a chunk that are being discarded; no thread can take them meanwhile.
struct Discarding {
    /// In the list of granules in progress.
    entry: usize,
    /// What is discarded.
    old: u32,
    /// What is held: all of the chunk, if its headers are discarded, too.
    held: u32,
    /// How many hold old contents.
    dirty: usize,
}

impl Chunks {
    /// Begins to discard up to `most` granules of a chunk, or a huge page; `None` if there are
    /// none, or too many threads do so.
    fn begin_discard(&mut self, index: usize, free: Free, most: usize) -> Option<Discarding> {
        if index >= self.count {
            // Another thread has unmapped it.
            return None;
        }
        let mut chunk = *self.chunk(index);
        let all = free == Free::All;
        let spared = if free == Free::Old { chunk.young } else { 0 };
        let mut old = chunk.free & !chunk.clean & !spared;
        if chunk.advice == Advice::Prefer && (all || old != 0) {
            // Granules that read as zero can be resident all the same: the kernel maps a huge page
            // as a whole.
            old = chunk.free;
        } else {
            old = lowest(old, most);
        }
        // Not again for a chunk that has been empty and clean before.
        let is_empty =
            chunk.free == u32::MAX && (all || (old != 0 && (old | chunk.clean) == u32::MAX));
        let held = if is_empty { u32::MAX } else { old };
        if held == 0 {
            if free == Free::Old {
                self.chunk_mut(index).young = 0;
                self.ask_if_dense(index);
            }
            return None;
        }
        let entry = self.in_progress.begin(index, held)?;
        let dirty = (old & !chunk.clean).count_ones() as usize;
        if dirty < most {
            chunk.young = 0;
        }
        chunk.free &= !held;
        // Not clean in the child of a fork either, which gives them back as dirty.
        chunk.clean &= !held;
        chunk.discarded |= old;
        *self.chunk_mut(index) = chunk;
        self.dirty -= dirty;
        self.discarded += dirty as u64;
        self.used += held.count_ones() as usize;
        // Otherwise the kernel would fill the holes again.
        self.ask_no_more(index, 0);
        Some(Discarding { entry, old, held, dirty })
    }
}

/// Discards up to `most` granules of a chunk, or a huge page; returns how many held old contents.
pub(super) fn discard_in_chunk(index: usize, free: Free, most: usize) -> usize {
    let discarding = CHUNKS.lock().begin_discard(index, free, most);
    let Some(discarding) = discarding else { return 0 };
    discard_runs(index, discarding.old);
    if discarding.held == u32::MAX {
        slab::discard_headers(granule_of(index, 0), CHUNK_GRANULES);
    }
    let mut chunks = CHUNKS.lock();
    chunks.in_progress.end(discarding.entry);
    chunks.give(index, discarding.held, true);
    discarding.dirty
}

/// Discards the pages of every run of set bits.
fn discard_runs(index: usize, mut bits: u32) {
    while bits != 0 {
        let start = bits.trailing_zeros();
        let length = (bits >> start).trailing_ones();
        let address = granule_of(index, start).address();
        let bytes = length as usize * GRANULE_BYTES;
        // SAFETY: the granules are marked as in use by `discard_in_chunk`, and nothing else uses
        // them.
        unsafe { map::discard(address, bytes) };
        probe::purge(address, bytes);
        work::note(work::OF_CALL + bytes / map::page_bytes() * work::OF_PAGE);
        bits &= !mask(start, length as usize);
    }
}
