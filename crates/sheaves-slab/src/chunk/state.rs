//! The bits of the chunks, and the state under their lock.

use sheaves_rcu::defer;
use sheaves_sys::lock::Lock;
use sheaves_sys::map::{self, Exactly};
use sheaves_sys::probe;

use super::due;
use super::in_progress::InProgress;
use crate::granule::{self, Granule};
use crate::window::{self, CHUNK_BYTES, CHUNK_GRANULES, GRANULE_BYTES, SLAB_HEADER_BYTES};

/// Which chunks ask the kernel for a huge page: `SHEAVES_HUGE_PAGES`.
///
/// A huge page that is there at the first touch has to be cleared as a whole, and a heap that grows
/// may use little of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HugePages {
    /// None.
    Never,
    /// Those that had no free granule at all ticks for [`DENSE_MS`]. None once the process has
    /// forked, because a child that lives on shares its pages.
    Auto,
    /// Also all others, when they are mapped.
    Always,
}

/// Time in which a chunk is dense before it asks for a huge page.
pub(super) const DENSE_MS: u32 = 10_000;
/// `dense_ms` of a chunk that has asked for a huge page.
pub(super) const ASKED: u32 = u32::MAX;
/// `dense_ms` of a chunk in which holes of slabs were discarded.
pub(super) const HOLED: u32 = u32::MAX - 1;

const CHUNK_HEADER_BYTES: usize = CHUNK_GRANULES * SLAB_HEADER_BYTES;

/// State of one chunk; see the table in `mod.rs`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub(super) free: u32,
    pub(super) clean: u32,
    pub(super) young: u32,
    /// For how long no granule was free, as the ticks saw it; [`ASKED`] or [`HOLED`].
    pub(super) dense_ms: u32,
    /// Granules that were discarded and not taken since.
    pub(super) discarded: u32,
}

/// The lowest chunk where there may be room, for each length of a run.
pub(super) type FirstFit = [u32; CHUNK_GRANULES];

/// State under the chunks lock.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// Number of chunks that have an entry: mapped, or skipped.
    pub(super) count: usize,
    /// Number of chunks that were skipped because other mappings are there.
    pub(super) skipped: usize,
    /// No chunk below these has room for a run of `index + 1` free granules.
    pub(super) first_fit: FirstFit,
    /// The same for granules that hold old contents.
    pub(super) first_fit_dirty: FirstFit,
    /// The chunk to which granules were last given.
    pub(super) given_last: usize,
    /// Number of granules that are free and hold old contents.
    pub(super) dirty: usize,
    /// Number of granules in use.
    pub(super) used: usize,
    /// Number of granules that were discarded so far.
    pub(super) purged: u64,
    /// Number of granules that were taken after they had been discarded, so far.
    pub(super) refilled: u64,
    pub(crate) huge_pages: HugePages,
    /// Granules that threads are working on without the lock.
    pub(super) in_progress: InProgress,
}

pub(crate) static CHUNKS: Lock<Chunks> = Lock::new(Chunks {
    count: 0,
    skipped: 0,
    first_fit: [0; CHUNK_GRANULES],
    first_fit_dirty: [0; CHUNK_GRANULES],
    given_last: 0,
    dirty: 0,
    used: 0,
    purged: 0,
    refilled: 0,
    huge_pages: HugePages::Auto,
    in_progress: InProgress::new(),
});

/// The bits at which `count` set bits in a row begin.
pub(super) fn runs_of(free: u32, count: usize) -> u32 {
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

pub(super) fn mask(bit: u32, count: usize) -> u32 {
    let ones = if count == 32 { u32::MAX } else { (1 << count) - 1 };
    ones << bit
}

pub(super) fn chunk(index: usize) -> &'static mut Chunk {
    let address = window::CHUNKS.base() + index * size_of::<Chunk>();
    // SAFETY: callers hold the chunks lock, pass an index below the count of mapped entries, and
    // drop one reference before they make the next.
    unsafe { &mut *core::ptr::with_exposed_provenance_mut::<Chunk>(address) }
}

pub(super) fn granule_of(index: usize, bit: u32) -> Granule {
    granule::first().after(index * CHUNK_GRANULES + bit as usize)
}

/// Chunk and bit of a granule.
pub(super) fn position_of(granule: Granule) -> (usize, u32) {
    let number = granule.0 - granule::first().0;
    (number as usize / CHUNK_GRANULES, number % CHUNK_GRANULES as u32)
}

/// Asks for a huge page for a chunk, or asks for none.
pub(super) fn ask_for_huge_page(index: usize, wants: bool) {
    let advise = if wants { map::prefer_huge_pages } else { map::avoid_huge_pages };
    advise(granule_of(index, 0).address(), CHUNK_BYTES);
}

/// Maps the entries of the first `count` chunks in the maps of owners and of chunks.
fn map_entries(count: usize) -> bool {
    let owners = (granule::first().0 as usize + count * CHUNK_GRANULES) * 2;
    window::OWNERS.grow_to(owners) == Exactly::Mapped
        && window::CHUNKS.grow_to(count * size_of::<Chunk>()) == Exactly::Mapped
}

/// Chunk and bit of a run among the granules that `usable` accepts, in the first of `chunks` where
/// there is one. No chunk below `first` has one; raises `first`.
fn find(
    first: &mut u32,
    chunks: usize,
    count: usize,
    align: usize,
    usable: impl Fn(&Chunk) -> u32,
) -> Option<(usize, u32)> {
    let mut has_room = (*first as usize..chunks).filter_map(|index| {
        let fits = runs_of(usable(chunk(index)), count);
        (fits != 0).then_some((index, fits))
    });
    let mut next = has_room.next();
    // An unaligned fit is still a fit for the next caller.
    *first = next.map_or(chunks, |(index, _)| index) as u32;
    while let Some((index, fits)) = next {
        let aligned = fits & multiples_of(align);
        if aligned != 0 {
            return Some((index, aligned.trailing_zeros()));
        }
        next = has_room.next();
    }
    None
}

impl Chunks {
    /// Takes a run of granules; returns chunk and bit of the first, and whether all of it reads as
    /// zero. Granules with old contents come first: the others would cost page faults, and more
    /// memory until the old contents are discarded.
    pub(super) fn take_run(&mut self, count: usize, align: usize) -> Option<(usize, u32, bool)> {
        debug_assert!((1..=CHUNK_GRANULES).contains(&count) && align.is_power_of_two());
        let mut found = None;
        if self.dirty >= count {
            let first = &mut self.first_fit_dirty[count - 1];
            found = find(first, self.count, count, align, |chunk| chunk.free & !chunk.clean);
        }
        while found.is_none() {
            let first = &mut self.first_fit[count - 1];
            found = find(first, self.count, count, align, |chunk| chunk.free);
            if found.is_none() && !self.grow() {
                return None;
            }
        }
        let (index, bit) = found?;
        Some((index, bit, self.take(index, mask(bit, count))))
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
        let is_always = self.huge_pages == HugePages::Always;
        ask_for_huge_page(self.count, is_always);
        let dense_ms = if is_always { ASKED } else { 0 };
        *chunk(self.count) =
            Chunk { free: u32::MAX, clean: u32::MAX, young: 0, dense_ms, discarded: 0 };
        self.publish(self.count + 1);
        probe::chunk_made(granule_of(self.count - 1, 0).address(), CHUNK_BYTES);
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

    pub(super) fn publish(&mut self, count: usize) {
        self.count = count;
        granule::publish(count * CHUNK_GRANULES);
    }

    /// At a tick, for a chunk that has not asked for a huge page: true when it is to ask now.
    pub(super) fn is_dense(&self, index: usize) -> bool {
        let chunk = chunk(index);
        let period_ms = defer::period_ms().unwrap_or(0) as u32;
        chunk.dense_ms = match chunk.free {
            0 if chunk.dense_ms == HOLED => HOLED,
            0 if self.huge_pages != HugePages::Never => chunk.dense_ms + period_ms,
            _ => 0,
        };
        let is_dense = (DENSE_MS..HOLED).contains(&chunk.dense_ms);
        if is_dense {
            chunk.dense_ms = ASKED;
        }
        is_dense
    }

    /// Bytes in use or dirty.
    fn bytes(&self) -> usize {
        (self.used + self.dirty) * GRANULE_BYTES
    }

    /// Takes granules that are free; returns true when all of them read as zero.
    fn take(&mut self, index: usize, mask: u32) -> bool {
        let chunk = chunk(index);
        let dirty = mask & !chunk.clean;
        chunk.free &= !mask;
        chunk.clean &= !mask;
        chunk.young &= !mask;
        self.refilled += u64::from((chunk.discarded & mask).count_ones());
        chunk.discarded &= !mask;
        self.dirty -= dirty.count_ones() as usize;
        self.used += mask.count_ones() as usize;
        due::note_bytes(self.bytes());
        dirty == 0
    }

    pub(super) fn give(&mut self, index: usize, mask: u32, clean: bool) {
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
            self.given_last = index;
        }
        self.used -= mask.count_ones() as usize;
        due::note_bytes(self.bytes());
        let lower = |first: &mut u32| *first = (*first).min(index as u32);
        self.first_fit.iter_mut().for_each(lower);
        if !clean {
            self.first_fit_dirty.iter_mut().for_each(lower);
        }
    }
}
