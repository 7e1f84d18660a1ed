//! Recomputing all metadata from the maps and comparing, for tests.
//!
//! Nothing here is fast, and nothing in the allocator depends on it.

use core::fmt;

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::bits;
use crate::dynamic::chunk::{Chunk, mask, pages_of};
use crate::dynamic::config::{GRAIN_BYTES, Offset, Request, bytes_of};
use crate::dynamic::counters::Counters;
use crate::dynamic::hints::{BLOCK_BITS, Hints, Run};
use crate::dynamic::lists::{FULL, NONE, is_small};
use crate::dynamic::policy::Policy;
use crate::dynamic::refresh;

/// What is demanded beyond what every policy promises; see the last table of
/// [`crate::dynamic::policy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// Contig hints of blocks are exact, not only never too large; a full refresh of a chunk
    /// finds its longest run.
    pub exact_blocks: bool,
    /// Right runs of blocks are exact.
    pub exact_right: bool,
    /// Contig hints of chunks are always exact, not only after a refresh.
    pub exact_chunks: bool,
    /// Scan hints are the longest run before contig, or one after it that is as long, or unset
    /// in every field.
    pub exact_scan: bool,
    /// The empty pages of a chunk are always exact, not only after a refresh.
    pub exact_empty: bool,
}

impl Promise {
    /// Of [`crate::dynamic::V50`].
    pub const V50: Promise = Promise {
        exact_blocks: true,
        exact_right: true,
        exact_chunks: false,
        exact_scan: false,
        exact_empty: false,
    };
    /// Of [`crate::dynamic::V52`].
    pub const V52: Promise = Promise {
        exact_blocks: false,
        exact_right: false,
        exact_chunks: false,
        exact_scan: false,
        exact_empty: true,
    };
    /// Of [`crate::dynamic::Fixed`].
    pub const FIXED: Promise = Promise {
        exact_blocks: true,
        exact_right: true,
        exact_chunks: true,
        exact_scan: true,
        exact_empty: true,
    };
}

/// The first thing found that is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// What.
    pub what: &'static str,
    /// In which chunk, if in one.
    pub chunk: Option<usize>,
    /// In which block of it, if in one.
    pub block: Option<usize>,
    /// What the maps say.
    pub truth: u64,
    /// What the metadata says.
    pub found: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { what, chunk, block, truth, found } = self;
        write!(f, "{what}: {found}, but it is {truth} (chunk {chunk:?}, block {block:?})")
    }
}

fn check(holds: bool, what: &'static str, truth: u32, found: u32) -> Result<(), Violation> {
    if holds {
        return Ok(());
    }
    let (truth, found) = (u64::from(truth), u64::from(found));
    Err(Violation { what, chunk: None, block: None, truth, found })
}

fn equal(what: &'static str, truth: u32, found: u32) -> Result<(), Violation> {
    check(truth == found, what, truth, found)
}

/// `exact`: equal; else not above the truth.
fn equal_or_less(what: &'static str, e: bool, truth: u32, found: u32) -> Result<(), Violation> {
    check(if e { truth == found } else { found <= truth }, what, truth, found)
}

impl<P: Policy, B: Backing> Allocator<P, B> {
    /// Verifies everything: each chunk, the lists, the totals.
    ///
    /// # Errors
    /// The first violation.
    pub fn verify(&mut self, promise: Promise) -> Result<(), Violation> {
        let (mut chunks, mut objects, mut populated, mut empty) = (0, 0, 0, 0);
        let mut from = 0;
        while let Some(chunk) = self.records.next_live(from) {
            self.verify_chunk(chunk as usize, promise)?;
            let header = self.records.header(chunk);
            chunks += 1;
            objects += header.objects;
            populated += header.populated.count_ones();
            empty += if header.isolated { 0 } else { header.empty };
            from = chunk + 1;
        }
        equal("empty pages of all chunks", empty, self.empty)?;
        equal("populated pages of all chunks", populated, self.totals.populated_pages as u32)?;
        equal("number of chunks", chunks, self.totals.chunks as u32)?;
        let counted = self.totals.allocations - self.totals.frees;
        equal("objects of all chunks", objects, counted as u32)?;
        equal("chunks in lists", chunks, self.verify_lists()?)
    }

    /// Verifies the links of all lists and returns how many chunks are in them.
    fn verify_lists(&self) -> Result<u32, Violation> {
        let mut count = 0;
        for list in 0..self.lists.count() {
            let mut previous = NONE;
            let mut chunk = self.lists.head(list);
            while chunk != NONE {
                let header = self.records.header(chunk);
                equal("list of a chunk in a list", list, header.list)?;
                equal("previous chunk in a list", previous, header.previous)?;
                count += 1;
                (previous, chunk) = (chunk, header.next);
            }
            equal("tail of a list", previous, self.lists.tail(list))?;
            let occupied = u32::from(previous != NONE);
            equal("bit of a list", occupied, self.lists.occupied(list))?;
        }
        Ok(count)
    }

    /// Verifies one chunk: its hints, its blocks', its counts, its list.
    ///
    /// # Errors
    /// The first violation; also when there is no such chunk.
    pub fn verify_chunk(&mut self, chunk: usize, promise: Promise) -> Result<(), Violation> {
        let number = chunk as u32;
        let here = |violation| Violation { chunk: Some(chunk), ..violation };
        check(self.records.is_live(number), "live chunk", 1, 0).map_err(here)?;
        let view = self.records.chunk(number);
        for block in 0..view.blocks.len() {
            view.verify_block(block, promise)
                .map_err(|violation| Violation { block: Some(block), ..here(violation) })?;
        }
        view.verify_chunk_hints::<P>(promise).map_err(here)?;
        view.verify_counts(promise).map_err(here)?;
        self.verify_list(number).map_err(here)
    }

    fn verify_list(&self, chunk: u32) -> Result<(), Violation> {
        let header = self.records.header(chunk);
        let list = header.list;
        let apart = list == self.lists.sidelined() || list == self.lists.to_depopulate();
        equal("isolated", u32::from(apart), u32::from(header.isolated))?;
        let expected = self.list_for(chunk);
        let relegated = P::RELEGATE && list == FULL && is_small::<P>(expected);
        check(apart || relegated || list == expected, "list", expected, list)
    }

    /// Where a search of the map ends that begins at an offset, whether or not there is room.
    pub fn search_map(&mut self, from: Offset, size: usize, align: usize) -> Option<Offset> {
        let request = Request::new(size, align).ok()?;
        let (chunk, byte) = self.geometry.split(from)?;
        if !self.records.is_live(chunk) {
            return None;
        }
        let mut counters = Counters::default();
        let bit = (byte / GRAIN_BYTES) as u32;
        let area = self.records.chunk(chunk).search::<P>(bit, request, &mut counters)?;
        Some(self.geometry.offset(chunk, area.start))
    }

    /// Calls `see` with each object's offset and bytes, rounded up to 4, in order of offset.
    pub fn for_each_object(&mut self, mut see: impl FnMut(Offset, usize)) {
        let mut from = 0;
        while let Some(chunk) = self.records.next_live(from) {
            let view = self.records.chunk(chunk);
            for object in view.object_runs() {
                see(self.geometry.offset(chunk, object.start), bytes_of(object.bits()));
            }
            from = chunk + 1;
        }
    }

    /// Pages of a chunk that count as populated, one bit for each; 0 when it does not exist.
    pub fn populated_pages_of(&self, chunk: usize) -> u64 {
        match u32::try_from(chunk) {
            Ok(chunk) if self.records.is_live(chunk) => self.records.header(chunk).populated,
            _ => 0,
        }
    }
}

impl Chunk<'_> {
    fn verify_block(&self, index: usize, promise: Promise) -> Result<(), Violation> {
        let words = self.words(index);
        let hints = self.blocks[index];
        equal("bits of a block", BLOCK_BITS, hints.bits)?;
        let first_free = bits::next_zero(words, 0, BLOCK_BITS);
        equal("first free bit of a block", first_free, hints.first_free)?;
        equal("left run of a block", bits::next_one(words, 0, BLOCK_BITS), hints.left)?;
        let right = BLOCK_BITS - bits::run_start(words, BLOCK_BITS, 0);
        equal_or_less("right run of a block", promise.exact_right, right, hints.right)?;
        verify_hints(words, &hints, promise.exact_blocks, promise.exact_scan)
    }

    fn verify_chunk_hints<P: Policy>(&self, promise: Promise) -> Result<(), Violation> {
        let hints = self.header.hints;
        equal("bits of a chunk", self.blocks.len() as u32 * BLOCK_BITS, hints.bits)?;
        let first_free = bits::next_zero(self.allocated, 0, hints.bits);
        equal("first free bit of a chunk", first_free, hints.first_free)?;
        verify_hints(self.allocated, &hints, promise.exact_chunks, promise.exact_scan)?;
        let mut refreshed = hints;
        let populated = self.header.populated;
        let mut counters = Counters::default();
        let empty =
            refresh::chunk::<P>(&mut refreshed, self.blocks, populated, true, &mut counters);
        let exact = promise.exact_blocks && promise.exact_right;
        verify_hints(self.allocated, &refreshed, exact, promise.exact_scan)?;
        if !promise.exact_empty {
            let truth = (self.free_pages() & populated).count_ones();
            equal("empty pages of a chunk after a refresh", truth, empty)?;
        }
        Ok(())
    }

    fn verify_counts(&self, promise: Promise) -> Result<(), Violation> {
        let header = &*self.header;
        let free: u32 = self.allocated.iter().map(|word| word.count_zeros()).sum();
        equal("free bits of a chunk", free, header.free_bits)?;
        equal("objects of a chunk", self.object_runs().count() as u32, header.objects)?;
        let empty = (self.free_pages() & header.populated).count_ones();
        let holds = if promise.exact_empty { empty == header.empty } else { empty <= header.empty };
        check(holds, "empty pages of a chunk", empty, header.empty)?;
        for object in self.object_runs() {
            check(self.is_populated(object), "populated", 1, 0)?;
            let whole = bits::next_zero(self.allocated, object.start, object.end);
            equal("allocated bits of an object", object.end, whole)?;
        }
        let used = !self.free_pages() & mask(pages_of(Run::new(0, header.hints.bits)));
        check(used & !header.populated == 0, "populated pages in use", 0, 1)
    }
}

/// Verifies the hints of a span against its map.
fn verify_hints(map: &[u64], hints: &Hints, exact: bool, scan: bool) -> Result<(), Violation> {
    let (contig_start, scan_start) = (hints.contig_start, hints.scan_start);
    let (mut longest, mut before, mut contig_is_run, mut scan_is_run) = (0, 0, false, false);
    let mut at = 0;
    while at < hints.bits {
        let start = bits::next_zero(map, at, hints.bits);
        at = bits::next_one(map, start, hints.bits);
        let run = Run { start, end: at };
        longest = longest.max(run.bits());
        if start < contig_start {
            before = before.max(run.bits());
        }
        contig_is_run |= run == hints.contig_run();
        scan_is_run |= run == hints.scan_run();
    }
    equal_or_less("contig hint", exact, longest, hints.contig)?;
    for run in [hints.contig_run(), hints.scan_run()].into_iter().filter(|run| run.bits() > 0) {
        let end = bits::next_one(map, run.start, run.end.max(run.start));
        check(end == run.end && end <= hints.bits, "free bits of a hint", end, run.end)?;
    }
    if exact && hints.contig > 0 {
        check(contig_is_run, "contig hint is a whole run", 1, 0)?;
    }
    if !scan {
        return Ok(());
    }
    if hints.contig == 0 {
        equal("start of contig that is not set", 0, contig_start)?;
    }
    if hints.scan == 0 {
        return equal("start of a scan hint that is not set", 0, scan_start);
    }
    check(scan_is_run, "scan hint is a whole run", 1, 0)?;
    if scan_start > contig_start {
        return equal("scan hint after contig", hints.contig, hints.scan);
    }
    check(scan_start < contig_start, "scan hint before contig", contig_start, scan_start)?;
    equal("scan hint", before, hints.scan)
}
