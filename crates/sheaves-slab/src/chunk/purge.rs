//! Returning free granules to the system.

use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_sys::clock;
use sheaves_sys::lock::assert_none_held;
use sheaves_sys::map;

use super::state::{CHUNKS, Chunks, DENSE_TICKS, ask_for_huge_page, chunk, granule_of, mask};
use crate::slab;
use crate::window::{CHUNK_GRANULES, GRANULE_BYTES};

/// Freed granules keep their memory for one to two of these.
const TICK_MS: u64 = 500;

/// A tick is due.
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// Makes a tick due if the last one was long ago. Called when a run is freed.
pub(super) fn note_freed(chunks: &mut Chunks) {
    let now = clock::coarse_ms();
    if now.wrapping_sub(chunks.ticked_ms) >= TICK_MS {
        chunks.ticked_ms = now;
        // Relaxed: only signals that there is work, all of which is under the lock.
        IS_DUE.store(true, Ordering::Relaxed);
    }
}

/// Returns memory that was freed before the last tick to the system, if a tick is due. Not under a
/// lock.
#[inline]
pub(crate) fn purge_if_due() {
    // Relaxed, both: as in `note_freed`; the exchange has one caller do the work.
    if IS_DUE.load(Ordering::Relaxed) && IS_DUE.swap(false, Ordering::Relaxed) {
        purge(false);
    }
}

/// Returns all free memory to the system at once, with the headers of wholly free chunks. Returns
/// the bytes of heap that were returned.
pub fn trim() -> usize {
    purge(true)
}

/// Discards granules: all free ones, or those freed before the last tick.
#[cold]
pub(super) fn purge(all: bool) -> usize {
    assert_none_held();
    let count = CHUNKS.lock().count;
    (0..count).map(|index| purge_chunk(index, all)).sum()
}

fn purge_chunk(index: usize, all: bool) -> usize {
    let (entry, old, victims, is_empty, dirty, has_asked) = {
        let mut chunks = CHUNKS.lock();
        let state = chunk(index);
        let mut old = state.free & !state.clean & if all { u32::MAX } else { !state.young };
        let has_asked = state.dense_ticks == DENSE_TICKS;
        if has_asked && (all || old != 0) {
            // Granules that read as zero can be resident all the same: the kernel maps a huge page
            // as a whole.
            old = state.free;
        }
        let is_empty = all && state.free == u32::MAX;
        // A wholly free chunk is held until its headers are discarded.
        let victims = if is_empty { u32::MAX } else { old };
        if victims == 0 {
            state.young = 0;
            if !all && !has_asked && chunks.is_dense(index) {
                drop(chunks);
                ask_for_huge_page(index, true);
            }
            return 0;
        }
        let Some(entry) = chunks.in_progress.begin(index, victims) else { return 0 };
        (state.young, state.dense_ticks) = (0, 0);
        // No thread can take them while they are marked as in use.
        state.free &= !victims;
        let dirty = (old & !state.clean).count_ones() as usize;
        state.clean &= !old;
        chunks.dirty -= dirty;
        chunks.used += victims.count_ones() as usize;
        (entry, old, victims, is_empty, dirty, has_asked)
    };
    if has_asked {
        // Otherwise the kernel would fill the holes again.
        ask_for_huge_page(index, false);
    }
    discard(index, old);
    if is_empty {
        slab::discard_headers(granule_of(index, 0), CHUNK_GRANULES);
    }
    let mut chunks = CHUNKS.lock();
    chunks.in_progress.end(entry);
    chunks.give(index, victims, true);
    dirty * GRANULE_BYTES
}

/// Discards the pages of every run of set bits.
fn discard(index: usize, mut bits: u32) {
    while bits != 0 {
        let start = bits.trailing_zeros();
        let length = (bits >> start).trailing_ones();
        let address = granule_of(index, start).address();
        // SAFETY: the granules are marked as in use by `purge_chunk`, and nothing else uses them.
        unsafe { map::discard(address, length as usize * GRANULE_BYTES) };
        bits &= !mask(start, length as usize);
    }
}
