//! The allocator of per-CPU memory before and after its change of 2019, over offsets.
//!
//! **Source.** Linux, `mm/percpu.c` of 5.0 ([`V50`]), and of 5.2 with "introduce percpu block
//! scan_hint" (2019, [`V52`]). Published: inserting filters of traffic control took 69 s before and
//! 39 s after, 1.77 times less. A filter takes three objects, two of them aligned to 16. That
//! leaves a hole of 12 bytes in every 64, which fits none of them.
//!
//! **Reproduced.** Chunks with an allocation map and a boundary map; a block of hints for each
//! page; lists of chunks; the choice of chunk and place for a request; the release of chunks
//! without an object, except one. The differences:
//!
//! | | V50 | V52 |
//! |---|---|---|
//! | chunks are in lists by | free bytes | the longest free run, *contig* |
//! | chunks of small holes that do not fit | are tested each time | leave the search |
//! | empty pages | are recounted block by block | are counted as they change |
//! | the longest run before contig | is not kept | is the *scan hint* |
//! | searches begin at | the first free bit | the scan hint, where it is too short |
//!
//! V52 has the errors of its time: a scan hint may be in the run that became contig, a dropped hint
//! keeps its start, a refresh that begins at the scan hint forgets the run at the right edge, and a
//! run longer than the scan hint may be before it.
//!
//! The arithmetic on bitmaps is the library's: it is no part of what is compared.
//!
//! **Left out.** The reserve of populated pages for requests that must not sleep, the first chunk
//! with the kernel's static per-CPU variables, and the memory itself: all of this is arithmetic.
//! Pages of chunks that are in use are not released; Linux does that since 2021.

mod chunk;
mod hints;
mod lists;
mod request;

use core::ops::Range;
use std::collections::BTreeSet;

use chunk::Chunk;
use hints::Run;
use lists::{FULL, Lists, NONE, is_small, list_of};
use request::{GRAIN_BYTES, Request};
pub use request::{PAGE_BYTES, Work};

/// The algorithm before the changes of 2019.
pub type V50<M> = Allocator<false, M>;
/// The algorithm with the changes of 2019, as they were made.
pub type V52<M> = Allocator<true, M>;

/// The memory that the allocator divides.
pub trait Memory {
    /// Releases pages of a chunk; there is no object on them.
    fn depopulate(&mut self, chunk: usize, pages: Range<usize>);
}

/// Contents of the allocator. Bytes and pages are those of one CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Objects ever allocated.
    pub allocations: u64,
    /// Chunks that exist.
    pub chunks: u64,
    /// Pages that have, or had, an object.
    pub populated_pages: u64,
    /// Bytes of the metadata of all chunks.
    pub metadata_bytes: u64,
}

/// The allocator: [`V50`] or, with `HINTS`, [`V52`].
#[derive(Debug)]
pub struct Allocator<const HINTS: bool, M> {
    memory: M,
    unit_bytes: usize,
    chunks_max: usize,
    /// Chunks by number, and the numbers of those that were destroyed.
    #[expect(clippy::vec_box, reason = "as in Linux, each chunk is an allocation of its own")]
    chunks: Vec<Box<Chunk>>,
    vacant: BTreeSet<u32>,
    lists: Lists,
    balance_wanted: bool,
    allocations: u64,
    populated_pages: u64,
    smallest: u32,
    work: Work,
}

impl<const HINTS: bool, M: Memory> Allocator<HINTS, M> {
    /// An allocator of up to `chunks_max` chunks of 32 to 256 KiB, a power of two.
    ///
    /// # Panics
    /// For another `unit_bytes`.
    pub fn new(memory: M, unit_bytes: usize, chunks_max: usize) -> Self {
        assert!(unit_bytes.is_power_of_two() && (32 << 10..=256 << 10).contains(&unit_bytes));
        Allocator {
            memory,
            unit_bytes,
            chunks_max,
            chunks: Vec::with_capacity(chunks_max),
            vacant: BTreeSet::new(),
            lists: Lists::new((unit_bytes / GRAIN_BYTES) as u32),
            balance_wanted: false,
            allocations: 0,
            populated_pages: 0,
            smallest: u32::MAX,
            work: Work::default(),
        }
    }

    /// Allocates an object and returns its offset: its chunk's number times the bytes of a unit,
    /// plus its place in the chunk. `None` if no chunk has room.
    pub fn alloc(&mut self, size: usize, align: usize) -> Option<usize> {
        if size == 0 || size > self.unit_bytes || !align.is_power_of_two() || align > PAGE_BYTES {
            return None;
        }
        let bits = size.div_ceil(GRAIN_BYTES) as u32;
        let request = Request { bits, align_mask: (align.div_ceil(GRAIN_BYTES) - 1) as u32 };
        let (chunk, area) = match self.find(request) {
            Some(found) => found,
            None => {
                self.create_chunk()?;
                self.find(request)?
            }
        };
        self.take(chunk, area);
        (self.allocations, self.smallest) = (self.allocations + 1, self.smallest.min(bits));
        Some(chunk as usize * self.unit_bytes + area.start as usize * GRAIN_BYTES)
    }

    fn find(&mut self, request: Request) -> Option<(u32, Run)> {
        let whole = request.bits as usize * GRAIN_BYTES == self.unit_bytes;
        let first = if whole { self.lists.free() } else { list_of(request.bits) };
        let mut lists = self.lists.searched_from(first);
        while lists != 0 {
            let list = lists.trailing_zeros();
            let mut chunk = self.lists.head(list);
            while chunk != NONE {
                self.work.chunks_tested += 1;
                let view = &mut self.chunks[chunk as usize];
                let next = view.next;
                if request.fits(view.hints.contig_run())
                    && let Some(area) = view.find::<HINTS>(request, &mut self.work)
                {
                    return Some((chunk, area));
                }
                if HINTS && is_small(list) {
                    self.lists.move_to(&mut self.chunks, chunk, FULL);
                    self.work.relegations += 1;
                }
                chunk = next;
            }
            lists &= lists - 1;
        }
        None
    }

    fn take(&mut self, chunk: u32, area: Run) {
        let view = &mut self.chunks[chunk as usize];
        view.take::<HINTS>(area, &mut self.work);
        let missing = area.pages() & !view.populated;
        view.populated |= missing;
        self.populated_pages += u64::from(missing.count_ones());
        self.relocate(chunk);
    }

    /// Frees the object at an offset. False if there is none.
    pub fn free(&mut self, offset: usize) -> bool {
        let (chunk, bit) = (offset / self.unit_bytes, offset % self.unit_bytes / GRAIN_BYTES);
        if !offset.is_multiple_of(GRAIN_BYTES) || !self.is_live(chunk) {
            return false;
        }
        let view = &mut self.chunks[chunk];
        let Some(area) = view.object_at(bit as u32, &mut self.work) else { return false };
        view.give::<HINTS>(area, &mut self.work);
        let is_free = view.free_bits == view.hints.bits;
        self.relocate(chunk as u32);
        self.balance_wanted |= is_free && self.lists.has_two_free(&self.chunks);
        true
    }

    fn is_live(&self, chunk: usize) -> bool {
        chunk < self.chunks.len() && !self.vacant.contains(&(chunk as u32))
    }

    /// Moves a chunk to the list of its key.
    fn relocate(&mut self, chunk: u32) {
        let list = self.list_for(&self.chunks[chunk as usize]);
        self.lists.move_to(&mut self.chunks, chunk, list);
    }

    fn list_for(&self, chunk: &Chunk) -> u32 {
        if chunk.hints.contig == 0 || chunk.free_bits == 0 {
            return FULL;
        }
        let key = if HINTS { chunk.hints.contig } else { chunk.free_bits };
        if key == chunk.hints.bits { self.lists.free() } else { list_of(key) }
    }

    fn create_chunk(&mut self) -> Option<()> {
        let fresh = Chunk::new(self.unit_bytes);
        let chunk = match self.vacant.pop_first() {
            Some(chunk) => {
                self.chunks[chunk as usize] = fresh;
                chunk
            }
            None if self.chunks.len() < self.chunks_max => {
                self.chunks.push(fresh);
                self.chunks.len() as u32 - 1
            }
            None => return None,
        };
        let list = self.lists.free();
        self.lists.add_head(&mut self.chunks, chunk, list);
        Some(())
    }

    /// True when [`Allocator::balance`] has something to do.
    pub fn balance_wanted(&self) -> bool {
        self.balance_wanted
    }

    /// Releases chunks without an object, except one.
    pub fn balance(&mut self) {
        self.balance_wanted = false;
        while self.lists.has_two_free(&self.chunks) {
            let head = self.lists.head(self.lists.free());
            let chunk = self.chunks[head as usize].next;
            self.lists.remove(&mut self.chunks, chunk);
            self.vacant.insert(chunk);
            let mut pages = self.chunks[chunk as usize].populated;
            self.populated_pages -= u64::from(pages.count_ones());
            while pages != 0 {
                let start = pages.trailing_zeros();
                let count = (pages >> start).trailing_ones();
                self.memory.depopulate(chunk as usize, start as usize..(start + count) as usize);
                pages &= !(u64::MAX >> (u64::BITS - count) << start);
            }
        }
    }

    /// Free bytes in runs shorter than the smallest object so far. Reads all maps.
    pub fn unusable_bytes(&self) -> usize {
        let live = (0..self.chunks.len()).filter(|chunk| self.is_live(*chunk));
        let runs = live.flat_map(|chunk| self.chunks[chunk].free_runs().map(Run::bits));
        runs.filter(|bits| *bits < self.smallest).map(|bits| bits as usize * GRAIN_BYTES).sum()
    }

    /// The statistics.
    pub fn statistics(&self) -> Statistics {
        let chunks = (self.chunks.len() - self.vacant.len()) as u64;
        let metadata_bytes = chunks * Chunk::bytes(self.unit_bytes) as u64;
        let (allocations, populated_pages) = (self.allocations, self.populated_pages);
        Statistics { allocations, chunks, populated_pages, metadata_bytes }
    }

    /// Work done so far.
    pub fn work(&self) -> Work {
        self.work
    }
}

#[cfg(test)]
#[path = "../../tests/unit/percpu.rs"]
mod tests;
