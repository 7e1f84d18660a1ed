//! The bits of the chunks, and the state under their lock.

use core::ptr::with_exposed_provenance_mut;

use sheaves_sys::lock::Lock;
use sheaves_sys::map::Exactly;
use sheaves_sys::probe;

use super::advice::{Advice, HugePages};
use super::bits::{longest_run, mask, multiples_of, runs_of};
use super::due;
use super::in_progress::InProgress;
use crate::space::falls::Falls;
use crate::space::granule::{self, Granule};
use crate::space::window::{
    self, CHUNK_BYTES, CHUNK_GRANULES, CHUNK_HEADER_BYTES, CHUNK_RECORD_BYTES, GRANULE_BYTES,
};

/// The heap grows by as many granules at least, and by a chunk at most, where memory is not short.
const GROWTH_GRANULES: usize = 4;

/// State of one chunk; see the table in `mod.rs`. All zeros for one that was skipped.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub(super) free: u32,
    pub(super) clean: u32,
    pub(super) young: u32,
    /// For how long no granule was free, as the ticks saw it; or [`super::dense::HOLED`].
    pub(super) dense_ms: u32,
    /// Granules that were discarded and not taken since.
    pub(super) discarded: u32,
    pub(super) advice: Advice,
}

const _: () = assert!(size_of::<Chunk>() == CHUNK_RECORD_BYTES);

impl Chunk {
    /// All zeros: nothing is free, nothing is known.
    const NONE: Chunk =
        Chunk { free: 0, clean: 0, young: 0, dense_ms: 0, discarded: 0, advice: Advice::Foreign };
}

/// State under the chunks lock.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// Number of chunks that have an entry: mapped, at least in part, or skipped.
    pub(super) count: usize,
    /// Number of granules up to the last one that was mapped or skipped. The last chunk may have
    /// more: the heap grows into it.
    pub(super) end: usize,
    /// The most that it has been: what is mapped again below it counts as discarded.
    pub(super) top: usize,
    /// Number of granules that were skipped because other mappings are there.
    pub(super) skipped: usize,
    /// No chunk below these has room for a run of `index + 1` free granules; and of those with old
    /// contents.
    pub(super) first_fit: [[u32; CHUNK_GRANULES]; 2],
    /// The chunk with which a piece that discards surplus begins.
    pub(super) discard_next: usize,
    /// Number of granules that are free and hold old contents.
    pub(super) dirty: usize,
    /// Number of granules in use.
    pub(super) used: usize,
    /// Of that number.
    pub(super) falls: Falls,
    /// Number of granules that were discarded so far.
    pub(super) discarded: u64,
    /// Number of granules that were taken after they had been discarded, so far.
    pub(super) refilled: u64,
    pub(crate) huge_pages: HugePages,
    /// Number of chunks that differ in their advice from the one before them.
    pub(super) boundaries: usize,
    /// Granules that threads are working on without the lock.
    pub(super) in_progress: InProgress,
}

pub(crate) static CHUNKS: Lock<Chunks> = Lock::new(Chunks {
    count: 0,
    end: 0,
    top: 0,
    skipped: 0,
    first_fit: [[0; CHUNK_GRANULES]; 2],
    discard_next: 0,
    dirty: 0,
    used: 0,
    falls: Falls::NONE,
    discarded: 0,
    refilled: 0,
    huge_pages: HugePages::Auto,
    boundaries: 0,
    in_progress: InProgress::new(),
});

pub(super) fn granule_of(index: usize, bit: u32) -> Granule {
    granule::first().after(index * CHUNK_GRANULES + bit as usize)
}

/// Chunk and bit of a granule.
pub(super) fn position_of(granule: Granule) -> (usize, u32) {
    let number = granule.0 - granule::first().0;
    (number as usize / CHUNK_GRANULES, number % CHUNK_GRANULES as u32)
}

/// Maps the entries of the first `count` chunks in the maps of owners and of chunks.
fn map_entries(count: usize) -> bool {
    let owners = (granule::first().0 as usize + count * CHUNK_GRANULES) * 2;
    window::OWNERS.grow_to(owners) == Exactly::Mapped
        && window::CHUNKS.grow_to(count * CHUNK_RECORD_BYTES) == Exactly::Mapped
}

impl Chunks {
    /// The record of a chunk, or of the next one to be added.
    pub(super) fn chunk(&self, index: usize) -> &Chunk {
        // SAFETY: mapped; the borrow of the locked state covers the reference.
        unsafe { &*self.record(index) }
    }

    /// [`Chunks::chunk`], to be changed.
    pub(super) fn chunk_mut(&mut self, index: usize) -> &mut Chunk {
        // SAFETY: as in `chunk`; the unique borrow makes this the only reference.
        unsafe { &mut *self.record(index) }
    }

    fn record(&self, index: usize) -> *mut Chunk {
        assert!(index <= self.count, "chunk {index} has no record");
        with_exposed_provenance_mut(window::CHUNKS.base() + index * size_of::<Chunk>())
    }

    /// Chunk and bit of a run among the free granules, or those with old contents, in the first
    /// chunk where there is one.
    fn find(&mut self, is_dirty: bool, count: usize, align: usize) -> Option<(usize, u32)> {
        let first = self.first_fit[usize::from(is_dirty)][count - 1] as usize;
        let mut has_room = (first..self.count).filter_map(|index| {
            let chunk = self.chunk(index);
            let usable = if is_dirty { chunk.free & !chunk.clean } else { chunk.free };
            let fits = runs_of(usable, count);
            (fits != 0).then_some((index, fits))
        });
        let next = has_room.next();
        // An unaligned fit is still a fit for the next caller.
        let first = next.map_or(self.count, |(index, _)| index);
        let mut aligned = next.into_iter().chain(has_room);
        let found = aligned.find_map(|(index, fits)| {
            let fits = fits & multiples_of(align);
            (fits != 0).then(|| (index, fits.trailing_zeros()))
        });
        self.first_fit[usize::from(is_dirty)][count - 1] = first as u32;
        found
    }

    /// A chunk has got free granules: it has room for runs as long as its longest one.
    fn lower_first_fit(&mut self, index: usize) {
        let chunk = *self.chunk(index);
        for (usable, fits) in
            [chunk.free, chunk.free & !chunk.clean].iter().zip(&mut self.first_fit)
        {
            let longest = longest_run(*usable);
            fits[..longest].iter_mut().for_each(|first| *first = (*first).min(index as u32));
        }
    }

    /// Takes a run of granules; returns chunk and bit of the first, and whether all of it reads as
    /// zero. Granules with old contents come first: the others would cost page faults, and more
    /// memory until the old contents are discarded.
    pub(super) fn take_run(&mut self, count: usize, align: usize) -> Option<(usize, u32, bool)> {
        debug_assert!((1..=CHUNK_GRANULES).contains(&count) && align.is_power_of_two());
        let mut found = None;
        if self.dirty >= count {
            found = self.find(true, count, align);
        }
        while found.is_none() {
            found = self.find(false, count, align);
            if found.is_none() && !self.grow(count, align) {
                return None;
            }
        }
        let (index, bit) = found?;
        Some((index, bit, self.take(index, mask(bit, count))))
    }

    /// Maps more of the heap, so that there is a run; after any range that other mappings occupy.
    /// False, with nothing mapped, when memory is out.
    fn grow(&mut self, count: usize, align: usize) -> bool {
        let regions = [&window::OWNERS, &window::CHUNKS, &window::SLABS];
        let mapped = regions.map(window::Region::mapped);
        // Doubled each time: so few system calls skip a large mapping, and the range skipped
        // needlessly after it is no larger than the mapping.
        let mut skipped = 1;
        loop {
            match self.map_next(count, align) {
                Exactly::Mapped => return true,
                Exactly::Occupied if self.skip_rest() => {}
                Exactly::Occupied if self.skip(skipped) => skipped *= 2,
                Exactly::Occupied | Exactly::Refused => break,
            }
        }
        // What describes chunks that were skipped stays.
        for (region, bytes) in regions.into_iter().zip(mapped).filter(|_| skipped == 1) {
            region.shrink_to(bytes);
        }
        false
    }

    /// Maps what follows the last granule, up to the end of a run of free ones at least, and what
    /// describes it.
    fn map_next(&mut self, count: usize, align: usize) -> Exactly {
        let end = self.run_end(count, align);
        let growth = match self.huge_pages {
            HugePages::Always => CHUNK_GRANULES,
            _ => self.end.clamp(GROWTH_GRANULES, CHUNK_GRANULES),
        };
        let chunk_end = end.next_multiple_of(CHUNK_GRANULES);
        let wish = (self.end + growth).clamp(end, chunk_end);
        let chunks = chunk_end / CHUNK_GRANULES;
        if !map_entries(chunks) {
            return Exactly::Refused;
        }
        let mut outcome = window::SLABS.grow_to(chunks * CHUNK_HEADER_BYTES);
        let mapped = window::HEAP.mapped();
        if outcome == Exactly::Mapped && mapped < end * GRANULE_BYTES {
            let [wish, least] = [wish, end].map(|end| end * GRANULE_BYTES - mapped);
            outcome = window::HEAP.grow_by(wish, least);
        }
        if outcome == Exactly::Mapped {
            self.add_granules();
        }
        outcome
    }

    /// Where the first run ends that begins among the free granules at the end or behind it.
    fn run_end(&self, count: usize, align: usize) -> usize {
        let used = self.end % CHUNK_GRANULES;
        let free = match used {
            0 => 0,
            _ => self.chunk(self.count - 1).free << (CHUNK_GRANULES - used),
        };
        let start = (self.end - free.leading_ones() as usize).next_multiple_of(align);
        let is_cut = start % CHUNK_GRANULES + count > CHUNK_GRANULES;
        count + if is_cut { start.next_multiple_of(CHUNK_GRANULES) } else { start }
    }

    /// Adds the granules that are mapped behind the end: they are free.
    fn add_granules(&mut self) {
        let mapped = window::HEAP.mapped() / GRANULE_BYTES;
        while self.end < mapped {
            let (index, first) = (self.end / CHUNK_GRANULES, self.end % CHUNK_GRANULES);
            if index == self.count {
                self.add_chunk();
            }
            let more = (mapped - self.end).min(CHUNK_GRANULES - first);
            let again = self.top.saturating_sub(self.end).min(more);
            let (chunk, new) = (self.chunk_mut(index), mask(first as u32, more));
            let address = granule_of(index, first as u32).address();
            let _is_given = chunk.advice.give(address, more * GRANULE_BYTES);
            chunk.free |= new;
            chunk.clean |= new;
            chunk.discarded |= mask(first as u32, again);
            self.end += more;
            self.lower_first_fit(index);
            probe::chunk_made(address, more * GRANULE_BYTES);
        }
        self.top = self.top.max(self.end);
    }

    /// Adds a chunk, none of whose granules are free.
    fn add_chunk(&mut self) {
        let is_huge = self.huge_pages == HugePages::Always;
        let advice = if is_huge { Advice::Prefer } else { Advice::Avoid };
        let index = self.count;
        *self.chunk_mut(index) = Chunk { advice, ..Chunk::NONE };
        self.publish(index + 1);
        self.boundaries += self.boundary_before(index);
    }

    /// Unmaps the last chunks as long as they are wholly free and clean; the first one stays. What
    /// describes them stays mapped. Other mappings can be there then.
    pub(super) fn shrink(&mut self) {
        let before = self.count;
        while self.count > 1 {
            let index = self.count - 1;
            let mapped = mask(0, self.end - index * CHUNK_GRANULES);
            let Chunk { free, clean, .. } = *self.chunk(index);
            if free & clean != mapped {
                break;
            }
            self.boundaries -= self.boundary_before(index);
            // As one that has never been there: it may be skipped next.
            *self.chunk_mut(index) = Chunk::NONE;
            self.end = index * CHUNK_GRANULES;
            self.publish(index);
        }
        if self.count < before {
            window::HEAP.shrink_to(self.end * GRANULE_BYTES);
        }
    }

    /// Skips the rest of the last chunk: it counts as in use for ever. False if there is none.
    fn skip_rest(&mut self) -> bool {
        let end = self.count * CHUNK_GRANULES;
        if self.end == end {
            return false;
        }
        window::HEAP.skip_to(end * GRANULE_BYTES);
        self.note_foreign(self.count - 1);
        self.skipped += end - self.end;
        self.end = end;
        true
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
        // Their entries read as zero, fresh or left by `shrink`: nothing is free, nothing is owned.
        self.publish(count);
        self.skipped += more * CHUNK_GRANULES;
        self.end = count * CHUNK_GRANULES;
        true
    }

    pub(super) fn publish(&mut self, count: usize) {
        self.count = count;
        granule::publish(count * CHUNK_GRANULES);
    }

    /// The advice of a chunk; `Foreign` behind the last one.
    pub(super) fn advice(&self, index: usize) -> Advice {
        if index < self.count { self.chunk(index).advice } else { Advice::Foreign }
    }

    /// 1 if a chunk differs from the one before it.
    pub(super) fn boundary_before(&self, index: usize) -> usize {
        usize::from(index > 0 && self.advice(index - 1).differs(self.advice(index)))
    }

    /// Notes that something else is in a chunk.
    pub(super) fn note_foreign(&mut self, index: usize) {
        self.change(index, index + 1, Advice::Foreign);
    }

    pub(super) fn change(&mut self, first: usize, end: usize, advice: Advice) {
        for index in first..end {
            self.boundaries -= self.boundary_before(index);
            self.boundaries -= self.boundary_before(index + 1);
            self.chunk_mut(index).advice = advice;
            self.boundaries += self.boundary_before(index);
            self.boundaries += self.boundary_before(index + 1);
        }
    }

    /// Bytes in use or dirty.
    fn bytes(&self) -> usize {
        (self.used + self.dirty) * GRANULE_BYTES
    }

    /// Takes granules that are free; returns true when all of them read as zero.
    fn take(&mut self, index: usize, mask: u32) -> bool {
        let chunk = self.chunk_mut(index);
        let (dirty, refilled) = (mask & !chunk.clean, mask & chunk.discarded);
        chunk.free &= !mask;
        chunk.clean &= !mask;
        chunk.young &= !mask;
        chunk.discarded &= !mask;
        self.refilled += u64::from(refilled.count_ones());
        self.dirty -= dirty.count_ones() as usize;
        self.used += mask.count_ones() as usize;
        due::note_bytes(self.bytes());
        dirty == 0
    }

    pub(super) fn give(&mut self, index: usize, mask: u32, clean: bool) {
        let chunk = self.chunk_mut(index);
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
        due::note_bytes(self.bytes());
        self.lower_first_fit(index);
    }
}
