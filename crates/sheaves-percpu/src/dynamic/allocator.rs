//! The allocator: chooses the chunk for a request, keeps the lists of chunks, and balances them.
//!
//! Single-threaded: its owner holds a lock around each call. No call waits, and none touches the
//! memory that is allocated.

use core::ops::Range;

use sheaves_sys::lock::step;

use crate::dynamic::backing::Backing;
use crate::dynamic::chunk::{mask, ranges, run_around};
use crate::dynamic::config::{Config, Error, Geometry, Request};
use crate::dynamic::hints::Run;
use crate::dynamic::lists::{FULL, Lists, NONE, is_small, list_of};
use crate::dynamic::records::Records;

/// After this many chunks of one list that do not fit, a request continues with the next list, and
/// these chunks move to their list's tail.
const UNFIT_MAX: u32 = 8;

/// A chunk's empty pages are kept unless the other chunks have more than this many.
const EMPTY_PAGES_HIGH: u64 = 4;

const LOOKS_MAX: u32 = 64;

/// The state of an allocator. Pages are those of one slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes of metadata for one chunk.
    pub metadata_bytes_per_chunk: usize,
    /// Number of allocations so far.
    pub allocations: u64,
    /// Number of frees so far.
    pub frees: u64,
    /// Number of chunks at this moment.
    pub chunks: u64,
    /// Populated pages.
    pub populated_pages: u64,
    /// Populated pages without an object.
    pub empty_pages: u64,
}

impl Statistics {
    /// Number of objects at this moment.
    pub fn objects(&self) -> u64 {
        self.allocations - self.frees
    }
}

/// An allocator of offsets that are valid in every slot.
///
/// It divides chunks, which it creates and destroys through its backing `B`.
#[derive(Debug)]
pub struct Allocator<B: Backing> {
    pub(super) backing: B,
    pub(super) geometry: Geometry,
    pub(super) records: Records,
    pub(super) lists: Lists,
    pub(super) statistics: Statistics,
    /// Chunks from this number on may be worth a look of [`Allocator::balance`]; [`NONE`]: none.
    balance_from: u32,
}

impl<B: Backing> Allocator<B> {
    /// Creates an allocator without chunks. Reserves address space for the metadata of all chunks
    /// in the backing, and commits one bit per chunk.
    ///
    /// `None` when the backing has no memory for metadata.
    ///
    /// # Panics
    /// With a configuration that [`Config`] excludes.
    pub fn new(mut backing: B, config: Config) -> Option<Self> {
        let geometry = Geometry::new(config);
        let records = Records::new(&geometry, &mut backing)?;
        let metadata_bytes_per_chunk = records.record_bytes;
        let statistics = Statistics { metadata_bytes_per_chunk, ..Statistics::default() };
        let lists = Lists::new(geometry.bits);
        Some(Allocator { backing, geometry, records, lists, statistics, balance_from: NONE })
    }

    /// [`Allocator::find`] where nothing fits: creates a chunk, or searches everywhere before it
    /// fails.
    #[cold]
    pub(super) fn find_slow(&mut self, request: Request) -> Result<(u32, Run), Error> {
        match self.create_chunk() {
            Ok(()) => self.find(request).ok_or(Error::NoMemory),
            Err(refusal) => self.find_exhaustively(request).ok_or(refusal),
        }
    }

    #[inline]
    pub(super) fn find(&mut self, request: Request) -> Option<(u32, Run)> {
        let whole = request.bits == self.geometry.bits;
        let first = if whole { self.lists.free() } else { list_of(request.bits) };
        let mut lists = self.lists.occupied & u64::MAX << first;
        while lists != 0 {
            let found = self.find_in_list(lists.trailing_zeros(), request);
            if found.is_some() {
                return found;
            }
            lists &= lists - 1;
        }
        None
    }

    #[inline]
    fn find_in_list(&mut self, list: u32, request: Request) -> Option<(u32, Run)> {
        let mut chunk = self.lists.head(list);
        let mut unfit = 0;
        while chunk != NONE {
            self.records.work.chunk_tested();
            let header = self.records.header(chunk);
            let (next, hints) = (header.next, &header.hints);
            // A shorter run may fit when the longest is badly aligned. Ignoring it keeps the test
            // cheap.
            if let Some(area) = request.place_in(hints.contig) {
                let only_here = hints.only_contig_fits(request.bits);
                let found =
                    if only_here { Some(area) } else { self.records.chunk(chunk).find(request) };
                if let Some(area) = found {
                    return Some((chunk, area));
                }
            }
            if is_small(list) {
                self.lists.move_to(&mut self.records, chunk, FULL);
                self.records.work.chunk_relegated();
            } else {
                unfit += 1;
                if unfit == UNFIT_MAX {
                    // The next request in this list tests other chunks.
                    self.lists.rotate(&mut self.records, list, unfit);
                    break;
                }
            }
            chunk = next;
        }
        None
    }

    /// A free area in any chunk: reads the bitmap of every chunk whose longest run is long enough.
    #[cold]
    fn find_exhaustively(&mut self, request: Request) -> Option<(u32, Run)> {
        let mut from = 0;
        while let Some(chunk) = self.records.next_live(from) {
            self.records.work.chunk_tested();
            let view = self.records.chunk(chunk);
            let hints = &view.header.hints;
            if hints.contig.bits() >= request.bits
                && let Some(area) = view.first_fit(hints.first_free, hints.bits, request)
            {
                return Some((chunk, area));
            }
            from = chunk + 1;
        }
        None
    }

    /// Makes a free area an object and populates its pages.
    #[inline]
    pub(super) fn alloc_area(&mut self, chunk: u32, area: Run) {
        let mut view = self.records.chunk(chunk);
        self.statistics.empty_pages -= u64::from(view.alloc(area));
        let missing = mask(area.pages()) & !view.header.populated;
        view.header.populated |= missing;
        self.statistics.populated_pages += u64::from(missing.count_ones());
        self.update_list(chunk);
    }

    /// Makes an object free memory, and decides whether a balance is wanted.
    #[inline]
    pub(super) fn free_area(&mut self, chunk: u32, area: Run) {
        self.statistics.empty_pages += u64::from(self.records.chunk(chunk).free(area));
        if self.is_free(chunk) || self.records.header(chunk).list != self.lists.sidelined {
            self.update_list(chunk);
        }
        if self.is_surplus(chunk) {
            self.balance_from = self.balance_from.min(chunk);
        }
    }

    #[inline(always)]
    pub(super) fn is_free(&self, chunk: u32) -> bool {
        self.records.header(chunk).free_bits == self.geometry.bits
    }

    #[inline]
    fn update_list(&mut self, chunk: u32) {
        let list = self.list_for(chunk);
        self.lists.move_to(&mut self.records, chunk, list);
    }

    #[inline]
    pub(super) fn list_for(&self, chunk: u32) -> u32 {
        match self.records.header(chunk).hints.contig.bits() {
            0 => FULL,
            contig if contig == self.geometry.bits => self.lists.free(),
            contig => list_of(contig),
        }
    }

    /// Creates a chunk without an object.
    fn create_chunk(&mut self) -> Result<(), Error> {
        let chunk = self.records.first_vacant().ok_or(Error::Exhausted)?;
        if !self.backing.create_chunk(chunk as usize) {
            return Err(Error::NoMemory);
        }
        if !self.records.open(chunk, &mut self.backing) {
            let chunk = chunk as usize;
            self.backing.destroy_chunk(chunk, chunk..chunk + 1);
            return Err(Error::NoMemory);
        }
        let list = self.lists.free();
        self.lists.add(&mut self.records, chunk, list, true);
        self.statistics.chunks += 1;
        Ok(())
    }

    /// Does some of the work that [`Allocator::balance_wanted`] reports: looks at [`LOOKS_MAX`]
    /// chunks, up to the first that it destroys, because another one has no object either, or whose
    /// pages it depopulates, because many are empty. Calls the backing once for each range of pages
    /// that it returns.
    pub fn balance(&mut self) {
        let next = self.visit_chunks(self.balance_from, |this, chunk| {
            let is_surplus = this.is_surplus(chunk);
            if is_surplus && !this.give_back(chunk) {
                let sidelined = this.lists.sidelined;
                this.lists.remove(&mut this.records, chunk);
                this.lists.add(&mut this.records, chunk, sidelined, false);
            }
            is_surplus
        });
        self.balance_from = next.unwrap_or(NONE);
    }

    /// Returns everything without an object, even what [`Allocator::balance`] keeps for later
    /// requests: looks at [`LOOKS_MAX`] chunks from a number on, up to the first that has such
    /// pages. Returns where to go on, `None` at the end.
    pub fn trim(&mut self, from: u32) -> Option<u32> {
        // A trim from the begin on leaves nothing to balance; what is freed meanwhile does again.
        if from == 0 {
            self.balance_from = NONE;
        }
        self.visit_chunks(from, |this, chunk| {
            let has_empty = this.is_free(chunk) || this.records.header(chunk).empty != 0;
            if has_empty {
                this.give_back(chunk);
            }
            has_empty
        })
    }

    /// Visits chunks until a visit returns true.
    fn visit_chunks(&mut self, from: u32, visit: impl Fn(&mut Self, u32) -> bool) -> Option<u32> {
        let mut next = from;
        for _ in 0..LOOKS_MAX {
            step();
            let chunk = self.records.next_live(next)?;
            next = chunk + 1;
            if visit(self, chunk) {
                break;
            }
        }
        Some(next)
    }

    /// True for a chunk without an object, if there is another one, and for one with many empty
    /// pages, if others have many, too.
    #[inline]
    fn is_surplus(&self, chunk: u32) -> bool {
        if self.is_free(chunk) {
            let head = self.lists.head(self.lists.free());
            return head != NONE && self.records.header(head).next != NONE;
        }
        let empty = self.records.header(chunk).empty;
        empty >= self.geometry.pages / 4
            && self.statistics.empty_pages > EMPTY_PAGES_HIGH + u64::from(empty)
    }

    /// Returns the pages of a chunk without an object. True if it has none, and is destroyed.
    fn give_back(&mut self, chunk: u32) -> bool {
        self.depopulate_empty(chunk);
        if !self.is_free(chunk) {
            return false;
        }
        self.lists.remove(&mut self.records, chunk);
        let vacant = self.records.close(chunk, &mut self.backing);
        self.backing.destroy_chunk(chunk as usize, wide(vacant));
        self.statistics.chunks -= 1;
        true
    }

    /// Depopulates the pages of a chunk that are populated and without an object.
    fn depopulate_empty(&mut self, chunk: u32) {
        let view = self.records.chunk(chunk);
        let pages = view.free_pages() & view.header.populated;
        view.header.populated &= !pages;
        let count = core::mem::take(&mut view.header.empty);
        self.statistics.empty_pages -= u64::from(count);
        self.statistics.populated_pages -= u64::from(count);
        let unpopulated = !view.header.populated & mask(0..self.geometry.pages);
        for range in ranges(pages) {
            let around = run_around(unpopulated, range.start);
            self.backing.depopulate(chunk as usize, wide(range), wide(around));
        }
    }

    /// True when [`Allocator::balance`] has work. An early call keeps less memory in use.
    #[inline]
    pub fn balance_wanted(&self) -> bool {
        self.balance_from != NONE
    }

    /// The state of the allocator.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }
}

fn wide(range: Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
