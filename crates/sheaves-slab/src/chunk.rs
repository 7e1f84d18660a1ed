//! Chunks of 2 MiB, and the runs of granules allocated from them.
//!
//! Per chunk there are three bits for each of its 32 granules:
//!
//! | free | clean | young | the granule |
//! |---|---|---|---|
//! | 0 | - | - | is in use, or in a chunk that another mapping occupies |
//! | 1 | 1 | 0 | is free and reads as zero: never used, or discarded |
//! | 1 | 0 | 1 | is free, holds old contents, freed since the last tick |
//! | 1 | 0 | 0 | is free, holds old contents, freed before the last tick: discarded at the next |
//!
//! Runs are placed at the lowest address where they fit, so that the heap stays dense and chunks at
//! its end become free. A tick becomes due at most every half second, when a run is freed. It
//! happens with the next call that ends in `purge_if_due`, and at every [`trim`].
//!
//! All of this is under one lock, except the system calls that return memory, which take 0.1 ms for
//! each MiB: they are made without any lock. Meanwhile the granules are in a list of their own, see
//! `away`.

use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_sys::clock;
use sheaves_sys::lock::{Lock, assert_none_held};
use sheaves_sys::map::{self, Exactly};

use crate::away::Away;
use crate::granule::{self, Granule};
use crate::window::{self, CHUNK_BYTES, CHUNK_GRANULES, GRANULE_BYTES};

mod recover;

pub(crate) use recover::recover;

/// Freed granules keep their memory for one to two of these.
const TICK_MS: u64 = 500;

/// Number of chunks for which the kernel chooses the page size; the chunks after them ask for huge
/// pages. A heap of 16 MiB exceeds what a TLB covers, and the unused part of its last huge page is
/// at most an eighth of it.
const HUGE_PAGES_AFTER: usize = 8;

/// Bytes of the headers of one chunk.
const CHUNK_HEADER_BYTES: usize = CHUNK_GRANULES * crate::slab::HEADER_BYTES;

/// State of one chunk; see the table above.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Chunk {
    free: u32,
    clean: u32,
    young: u32,
    reserved: u32,
}

/// State under the chunks lock.
#[derive(Debug)]
struct Chunks {
    /// Number of chunks that have an entry: mapped, or skipped.
    count: usize,
    /// Number of chunks that were skipped because other mappings are there.
    skipped: usize,
    /// No chunk below this has room for a run of `index + 1` granules.
    first_fit: [u32; CHUNK_GRANULES],
    /// When the last tick happened.
    ticked_ms: u64,
    /// Number of granules that are free and hold old contents.
    dirty: usize,
    /// Number of granules in use.
    used: usize,
    /// Huge pages are never asked for.
    small_pages: bool,
    /// Granules that threads are working on without the lock.
    away: Away,
}

static CHUNKS: Lock<Chunks> = Lock::new(Chunks {
    count: 0,
    skipped: 0,
    first_fit: [0; CHUNK_GRANULES],
    ticked_ms: 0,
    dirty: 0,
    used: 0,
    small_pages: false,
    away: Away::new(),
});

/// A tick is due.
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// Disables the requests for huge pages.
pub(crate) fn use_small_pages() {
    CHUNKS.lock().small_pages = true;
}

/// A run that was taken.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Its first granule.
    pub first: Granule,
    /// All of it reads as zero.
    pub is_zero: bool,
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
pub(crate) struct Unfinished {
    pub(crate) run: Run,
    /// Its place in the list `away`, if one was vacant.
    place: Option<usize>,
}

/// [`take_run`], for a run that is prepared without a lock. Until [`finish_run`] a child of a fork,
/// which cannot know the run yet, finds it free.
#[must_use]
pub(crate) fn begin_run(count: usize, align: usize) -> Option<Unfinished> {
    let mut chunks = CHUNKS.lock();
    let run = chunks.take_run(count, align)?;
    let (index, bit) = place_of(run.first);
    let place = chunks.away.vacant_place();
    if let Some(place) = place {
        chunks.away.send(place, index, mask(bit, count));
    }
    Some(Unfinished { run, place })
}

/// Marks the run as in use. Called under the lock under which other threads learn of it.
pub(crate) fn finish_run(unfinished: &Unfinished) {
    if let Some(place) = unfinished.place {
        CHUNKS.lock().away.end(place);
    }
}

/// The bits at which `count` set bits in a row begin.
fn runs_of(free: u32, count: usize) -> u32 {
    let (mut bits, mut length) = (free, 1);
    while length < count {
        let step = length.min(count - length);
        bits &= bits >> step;
        length += step;
    }
    bits
}

/// The bits at multiples of a power of two.
fn multiples_of(align: usize) -> u32 {
    (0..32).filter(|bit| bit % align == 0).fold(0, |bits, bit| bits | 1 << bit)
}

fn mask(bit: u32, count: usize) -> u32 {
    let ones = if count == 32 { u32::MAX } else { (1 << count) - 1 };
    ones << bit
}

fn chunk(index: usize) -> &'static mut Chunk {
    let address = window::CHUNKS.base() + index * size_of::<Chunk>();
    // SAFETY: callers hold the chunks lock, pass an index below the count of mapped entries, and
    // drop one reference before they make the next.
    unsafe { &mut *core::ptr::with_exposed_provenance_mut::<Chunk>(address) }
}

fn granule_of(index: usize, bit: u32) -> Granule {
    granule::first().after(index * CHUNK_GRANULES + bit as usize)
}

/// Chunk and bit of a granule.
fn place_of(granule: Granule) -> (usize, u32) {
    let number = granule.0 - granule::first().0;
    (number as usize / CHUNK_GRANULES, number % CHUNK_GRANULES as u32)
}

/// Maps the entries of the first `count` chunks in the maps of owners and of chunks.
fn map_entries(count: usize) -> bool {
    let owners = (granule::first().0 as usize + count * CHUNK_GRANULES) * 2;
    window::OWNERS.grow_to(owners) == Exactly::Mapped
        && window::CHUNKS.grow_to(count * size_of::<Chunk>()) == Exactly::Mapped
}

impl Chunks {
    fn take_run(&mut self, count: usize, align: usize) -> Option<Run> {
        debug_assert!((1..=CHUNK_GRANULES).contains(&count) && align.is_power_of_two());
        let mut index = self.first_fit[count - 1] as usize;
        let mut has_found_room = false;
        loop {
            if index == self.count && !self.grow() {
                return None;
            }
            let fits = runs_of(chunk(index).free, count);
            if fits != 0 && !has_found_room {
                // An unaligned fit is still a fit for the next caller.
                has_found_room = true;
                self.first_fit[count - 1] = index as u32;
            }
            let aligned = fits & multiples_of(align);
            if aligned != 0 {
                return Some(self.take(index, aligned.trailing_zeros(), count));
            }
            index += 1;
        }
    }

    /// Adds the next chunk for which there is address space, after any range that other mappings
    /// occupy.
    fn grow(&mut self) -> bool {
        // Doubled each time: so few system calls skip a large mapping, and the range skipped
        // needlessly after it is no larger than the mapping.
        let mut skipped = 1;
        loop {
            match self.map_next() {
                Exactly::Mapped => break,
                Exactly::Occupied if self.skip(skipped) => skipped *= 2,
                Exactly::Occupied | Exactly::Refused => return false,
            }
        }
        if self.has_huge_pages(self.count) {
            map::prefer_huge_pages(granule_of(self.count, 0).address(), CHUNK_BYTES);
        }
        *chunk(self.count) = Chunk { free: u32::MAX, clean: u32::MAX, young: 0, reserved: 0 };
        self.publish(self.count + 1);
        true
    }

    /// Maps the chunk after the last one, and its header.
    fn map_next(&mut self) -> Exactly {
        let count = self.count + 1;
        if !map_entries(count) {
            return Exactly::Refused;
        }
        match window::SLABS.grow_to(count * CHUNK_HEADER_BYTES) {
            Exactly::Mapped => window::HEAP.grow_to(count * CHUNK_BYTES),
            failed => failed,
        }
    }

    /// Adds up to `more` chunks that count as in use for ever. False when there is no room for one.
    fn skip(&mut self, more: usize) -> bool {
        let more = more.min(window::HEAP.limit() / CHUNK_BYTES - self.count);
        let count = self.count + more;
        if more == 0 || !map_entries(count) {
            return false;
        }
        window::SLABS.skip_to(count * CHUNK_HEADER_BYTES);
        window::HEAP.skip_to(count * CHUNK_BYTES);
        // Their entries are fresh and read as zero: nothing is free, nothing is owned.
        self.publish(count);
        self.skipped += more;
        true
    }

    fn publish(&mut self, count: usize) {
        self.count = count;
        granule::publish(count * CHUNK_GRANULES);
    }

    fn has_huge_pages(&self, index: usize) -> bool {
        index >= HUGE_PAGES_AFTER && !self.small_pages
    }

    fn take(&mut self, index: usize, bit: u32, count: usize) -> Run {
        let mask = mask(bit, count);
        let chunk = chunk(index);
        let dirty = mask & !chunk.clean;
        chunk.free &= !mask;
        chunk.clean &= !mask;
        chunk.young &= !mask;
        self.dirty -= dirty.count_ones() as usize;
        self.used += count;
        Run { first: granule_of(index, bit), is_zero: dirty == 0 }
    }

    fn give(&mut self, index: usize, mask: u32, clean: bool) {
        let chunk = chunk(index);
        if chunk.free & mask != 0 {
            sheaves_sys::report::die(format_args!("a run of pages was given back twice"));
        }
        chunk.free |= mask;
        if clean {
            chunk.clean |= mask;
        } else {
            chunk.young |= mask;
            self.dirty += mask.count_ones() as usize;
        }
        self.used -= mask.count_ones() as usize;
        for first in &mut self.first_fit {
            *first = (*first).min(index as u32);
        }
    }
}

/// Releases a run. The caller has cleared its entries in the owner map, and holds no lock, since
/// memory that was freed long ago may be returned to the system here.
pub fn give_run(first: Granule, count: usize) {
    put_run(first, count);
    purge_if_due();
}

/// As [`give_run`], under locks. The caller calls [`purge_if_due`] after it has released them.
pub(crate) fn put_run(first: Granule, count: usize) {
    let (index, bit) = place_of(first);
    let now = clock::coarse_ms();
    let mut chunks = CHUNKS.lock();
    chunks.give(index, mask(bit, count), false);
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
    // Relaxed, both: as in `put_run`; the exchange has one caller do the work.
    if IS_DUE.load(Ordering::Relaxed) && IS_DUE.swap(false, Ordering::Relaxed) {
        purge(false);
    }
}

/// Takes the `more` granules right after a run, if they are free. They may hold old contents. For
/// growing in place.
#[must_use]
pub fn extend_run(first: Granule, count: usize, more: usize) -> bool {
    let (index, bit) = place_of(first);
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

/// Returns all free memory to the system at once, with the headers of wholly free chunks. Returns
/// the bytes of heap that were returned.
pub fn trim() -> usize {
    let bytes = purge(true);
    discard_owners();
    bytes
}

/// Discards the pages of the owner map that cover free chunks only.
fn discard_owners() {
    let page = map::page_bytes();
    let page_granules = page / 2;
    // Held all the time, so that no run is taken meanwhile: a few system calls.
    let chunks = CHUNKS.lock();
    let first = granule::first().0 as usize;
    let end = first + chunks.count * CHUNK_GRANULES;
    let is_free = |granule: usize| chunk((granule - first) / CHUNK_GRANULES).free == u32::MAX;
    for start in (first.next_multiple_of(page_granules)..end).step_by(page_granules) {
        let covered = start..(start + page_granules).min(end);
        if covered.step_by(CHUNK_GRANULES).all(is_free) {
            // SAFETY: this page has only entries of free granules, all 0, and of granules that do
            // not exist yet; it reads as zero afterwards.
            unsafe { map::discard(window::OWNERS.base() + 2 * start, page) };
        }
    }
}

/// Discards granules: all free ones, or those freed before the last tick.
#[cold]
fn purge(all: bool) -> usize {
    assert_none_held();
    let count = CHUNKS.lock().count;
    (0..count).map(|index| purge_chunk(index, all)).sum()
}

fn purge_chunk(index: usize, all: bool) -> usize {
    let (place, old, victims, is_empty, dirty) = {
        let mut chunks = CHUNKS.lock();
        let Some(place) = chunks.away.vacant_place() else { return 0 };
        let state = chunk(index);
        let mut old = state.free & !state.clean & if all { u32::MAX } else { !state.young };
        let rest = state.free & !state.young;
        if chunks.has_huge_pages(index) && (all || old != 0 && rest == u32::MAX) {
            // Granules that read as zero can be resident all the same: the kernel maps a huge page
            // as a whole.
            old = state.free;
        }
        state.young = 0;
        // No thread can take them while they are marked as in use.
        state.free &= !old;
        let is_empty = all && state.free | old == u32::MAX;
        // A wholly free chunk is held until its headers are discarded.
        let victims = if is_empty { u32::MAX } else { old };
        state.free &= !victims;
        let dirty = (old & !state.clean).count_ones() as usize;
        state.clean &= !old;
        chunks.dirty -= dirty;
        chunks.used += victims.count_ones() as usize;
        if victims == 0 {
            return 0;
        }
        chunks.away.send(place, index, victims);
        (place, old, victims, is_empty, dirty)
    };
    discard(index, old);
    if is_empty {
        crate::slab::discard_headers(granule_of(index, 0), CHUNK_GRANULES);
    }
    let mut chunks = CHUNKS.lock();
    chunks.away.end(place);
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

/// Takes the chunks lock for a fork.
pub(crate) fn lock_for_fork() {
    CHUNKS.acquire();
}

/// Releases the lock after a fork.
///
/// # Safety
/// Taken by [`lock_for_fork`] in the thread that forked.
pub(crate) unsafe fn unlock_after_fork() {
    // SAFETY: the same contract.
    unsafe { CHUNKS.release() };
}

/// Called in the child after that: frees the granules that threads were working on which the child
/// does not have. They may hold old contents.
pub(crate) fn bring_back_after_fork() {
    // It is taken only where this very thread holds it, and then no other thread was working on
    // any.
    if let Some(mut chunks) = CHUNKS.try_lock() {
        while let Some((index, granules)) = chunks.away.take_of_others() {
            chunks.give(index, granules, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_bit_by_bit() {
        for (free, count) in
            [(0b1111_u32, 3), (0b1011_0111, 3), (u32::MAX, 32), (0, 1), (1 << 31, 1), (!1, 31)]
        {
            for bit in 0..32 {
                let is_run =
                    bit + count <= 32 && (bit..bit + count).all(|place| free & (1 << place) != 0);
                assert_eq!(
                    runs_of(free, count) & (1 << bit) != 0,
                    is_run,
                    "{free:b} {count} {bit}"
                );
            }
        }
    }
}
