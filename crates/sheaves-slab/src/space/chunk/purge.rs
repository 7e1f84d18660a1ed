//! Discarding free granules; and doing what is due about unused memory, at the end of slow paths,
//! where no lock is held.

use sheaves_rcu::defer;
use sheaves_rcu::internal::{self, keeper};
use sheaves_sys::lock::assert_none_held;
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, errno, map, probe, request, tls};

use super::advice::Advice;
use super::dense::HOLED;
use super::due::{self, KEEP, LIMIT, START, SURPLUS, SWEEP, TICK};
use super::state::{CHUNKS, Chunks, granule_of, mask, position_of};
use crate::space::granule::Granule;
use crate::space::window::{CHUNK_GRANULES, GRANULE_BYTES};
use crate::space::{limit, slab};

/// Without a keeper, this many bytes may be free and hold old contents, or a quarter of those in
/// use.
const DIRTY_BYTES_MAX: usize = 8 << 20;
/// What is above that goes back in pieces of this many bytes.
const PIECE_BYTES: usize = 8 << 20;
/// Less is not worth a keeper.
const MUCH_BYTES: usize = 1 << 20;

/// The granules that a purge discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those freed before the last tick. This makes a tick.
    Old,
    /// Those that hold old contents.
    Dirty,
    /// All free ones.
    All,
}

/// Called when a run was freed.
pub(super) fn note_freed(chunks: &Chunks) {
    if chunks.dirty >= MUCH {
        due::note_unused(chunks.dirty * GRANULE_BYTES);
    }
    let is_surplus = chunks.dirty > dirty_max(chunks);
    if is_kept_now(is_surplus) {
        return;
    }
    if is_surplus {
        due::note(SURPLUS);
    }
    if let Some(period_ms) = keeper::period_ms() {
        due::note_time(clock::coarse_ms(), period_ms);
    }
}

/// True if the keeper does everything. Not near the limit, and not if much has come together while
/// it was busy.
fn is_kept_now(is_much: bool) -> bool {
    keeper::is_active() && limit::decay_ms() != Some(0) && !(is_much && keeper::is_overdue())
}

/// [`MUCH_BYTES`] in granules.
const MUCH: usize = MUCH_BYTES / GRANULE_BYTES;

/// The most granules that may be dirty without a keeper.
fn dirty_max(chunks: &Chunks) -> usize {
    match limit::decay_ms() {
        Some(0) => 0,
        Some(_) => (DIRTY_BYTES_MAX / GRANULE_BYTES).max(chunks.used / 4),
        None => usize::MAX,
    }
}

/// Returns unused memory to the kernel if it is time: the keeper does it, or the caller where there
/// is none, or near the limit. Has requests of tools answered. Called at the end of slow paths that
/// free, without a lock.
#[inline]
pub fn after_free() {
    if due::pending(!START) != 0 {
        errno::preserve(return_due);
    }
    if request::is_there() {
        answer(false);
    }
}

/// The same for slow paths that allocate. Only these start the library's thread: libc frees memory
/// under a lock that it needs to start one.
#[inline]
pub fn after_alloc() {
    let due = due::pending(!0);
    // In a process with one thread the keeper stays without a thread, whatever there is for it.
    if due != 0 && !(due == START && tls::is_single_threaded()) {
        errno::preserve(|| {
            if due & START != 0 {
                start_keeper();
            }
            if due & SWEEP != 0 {
                internal::serve(true);
            }
            return_due();
        });
    }
    if request::is_there() {
        answer(true);
    }
}

#[cold]
fn start_keeper() {
    internal::arm_keeper(true);
    if keeper::is_armed() {
        due::take(START);
    }
}

/// Passes a tool's request to the library's thread, or answers it where there can be none.
#[cold]
fn answer(may_start: bool) {
    errno::preserve(|| {
        if !internal::serve(may_start) {
            request::answer();
        }
    });
}

#[cold]
fn return_due() {
    if due::pending(!START) == 0 {
        return;
    }
    let due = due::take(!START);
    if due & LIMIT != 0 && limit::begin() {
        if internal::reclaimer_thread().is_some() {
            defer::flush();
        }
        internal::trim(Reach::Quiet);
        limit::end();
    }
    if due & SWEEP != 0 {
        internal::request_sweep();
    }
    if due & KEEP != 0 {
        internal::arm_keeper(false);
    }
    if due & TICK != 0 {
        let dirty = CHUNKS.lock().dirty;
        if dirty >= MUCH {
            due::note_unused(dirty * GRANULE_BYTES);
        }
        keeper::tick_here();
    }
    if due & SURPLUS != 0 {
        purge_surplus();
    }
}

/// Discards a piece of what is dirty, as far as that is too much. Begins with the chunk to which
/// something was given last.
fn purge_surplus() {
    let (last, count) = {
        let chunks = CHUNKS.lock();
        (chunks.given_last, chunks.count)
    };
    let mut bytes = 0;
    for index in (0..count.min(last + 1)).rev().chain(last + 1..count) {
        bytes += purge_chunk(index, Which::Dirty);
        let chunks = CHUNKS.lock();
        if bytes >= PIECE_BYTES || chunks.dirty <= dirty_max(&chunks) {
            return;
        }
    }
}

/// One tick; returns the bytes that are dirty after it.
pub(crate) fn tick() -> usize {
    purge(Which::Old);
    due::note_tick(clock::coarse_ms());
    CHUNKS.lock().dirty * GRANULE_BYTES
}

/// Holes of a slab in the chunk of a granule are about to be discarded: the chunk asks for no huge
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
    if keep_bytes == 0 {
        let bytes = purge(Which::All);
        CHUNKS.lock().shrink();
        return bytes;
    }
    assert_none_held();
    let (count, keep) = (CHUNKS.lock().count, keep_bytes / GRANULE_BYTES);
    let from_the_end = (0..count).rev().take_while(|_| CHUNKS.lock().dirty > keep);
    from_the_end.map(|index| purge_chunk(index, Which::Dirty)).sum()
}

/// Discards granules; returns the bytes of those that held old contents.
#[cold]
pub(super) fn purge(which: Which) -> usize {
    assert_none_held();
    let count = CHUNKS.lock().count;
    (0..count).map(|index| purge_chunk(index, which)).sum()
}

/// Granules of a chunk that are being discarded; no thread can take them meanwhile.
struct Purge {
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
    /// Begins to discard granules of a chunk; `None` if there are none, or too many threads do so.
    fn begin_purge(&mut self, index: usize, which: Which) -> Option<Purge> {
        if index >= self.count {
            // Another thread has unmapped it.
            return None;
        }
        let mut chunk = *self.chunk(index);
        let all = which == Which::All;
        let spared = if which == Which::Old { chunk.young } else { 0 };
        let mut old = chunk.free & !chunk.clean & !spared;
        if chunk.advice == Advice::Prefer && (all || old != 0) {
            // Granules that read as zero can be resident all the same: the kernel maps a huge page
            // as a whole.
            old = chunk.free;
        }
        // Not again for a chunk that has been empty and clean before.
        let is_empty =
            chunk.free == u32::MAX && (all || (old != 0 && (old | chunk.clean) == u32::MAX));
        let held = if is_empty { u32::MAX } else { old };
        if held == 0 {
            if which == Which::Old {
                self.chunk_mut(index).young = 0;
                self.ask_if_dense(index);
            }
            return None;
        }
        let entry = self.in_progress.begin(index, held)?;
        let dirty = (old & !chunk.clean).count_ones() as usize;
        chunk.young = 0;
        chunk.free &= !held;
        // Neither in the child of a fork, which gives them back as dirty.
        chunk.clean &= !held;
        chunk.discarded |= old;
        *self.chunk_mut(index) = chunk;
        self.dirty -= dirty;
        self.purged += dirty as u64;
        self.used += held.count_ones() as usize;
        // Otherwise the kernel would fill the holes again.
        self.ask_no_more(index, 0);
        Some(Purge { entry, old, held, dirty })
    }
}

fn purge_chunk(index: usize, which: Which) -> usize {
    let Some(purge) = CHUNKS.lock().begin_purge(index, which) else { return 0 };
    discard(index, purge.old);
    if purge.held == u32::MAX {
        slab::discard_headers(granule_of(index, 0), CHUNK_GRANULES);
    }
    let mut chunks = CHUNKS.lock();
    chunks.in_progress.end(purge.entry);
    chunks.give(index, purge.held, true);
    purge.dirty * GRANULE_BYTES
}

/// Discards the pages of every run of set bits.
fn discard(index: usize, mut bits: u32) {
    while bits != 0 {
        let start = bits.trailing_zeros();
        let length = (bits >> start).trailing_ones();
        let address = granule_of(index, start).address();
        let bytes = length as usize * GRANULE_BYTES;
        // SAFETY: the granules are marked as in use by `purge_chunk`, and nothing else uses them.
        unsafe { map::discard(address, bytes) };
        probe::purge(address, bytes);
        bits &= !mask(start, length as usize);
    }
}
