//! Recomputes all metadata from the bitmaps and compares it, for tests.
//!
//! Nothing here is fast, and the allocator depends on none of it.

use core::fmt;

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::bits;
use crate::dynamic::chunk::{Chunk, mask};
use crate::dynamic::config::{Config, Error, FreeError, bytes_of};
use crate::dynamic::counters::Work;
use crate::dynamic::hints::{Hints, PAGE_BITS, PAGE_WORDS, Run};
use crate::dynamic::lists::{FULL, NONE, is_small};
use crate::dynamic::refresh;

/// The first violation that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Violation {
    /// What is wrong.
    pub(crate) what: &'static str,
    /// The chunk, if it is in one.
    pub(crate) chunk: Option<usize>,
    /// The page of the chunk, if it is in one.
    pub(crate) page: Option<usize>,
    /// The value according to the bitmaps.
    pub(crate) truth: u64,
    /// The value in the metadata.
    pub(crate) found: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { what, chunk, page, truth, found } = self;
        write!(f, "{what}: {found}, but it is {truth} (chunk {chunk:?}, page {page:?})")
    }
}

fn check(holds: bool, what: &'static str, truth: u32, found: u32) -> Result<(), Violation> {
    if holds {
        return Ok(());
    }
    let (truth, found) = (u64::from(truth), u64::from(found));
    Err(Violation { what, chunk: None, page: None, truth, found })
}

fn equal(what: &'static str, truth: u32, found: u32) -> Result<(), Violation> {
    check(truth == found, what, truth, found)
}

impl<B: Backing> Allocator<B> {
    /// Verifies everything: each chunk, the lists, the totals.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn verify(&mut self) -> Result<(), Violation> {
        let (mut chunks, mut objects, mut populated, mut empty) = (0, 0, 0, 0);
        let mut from = 0;
        while let Some(chunk) = self.records.next_live(from) {
            self.verify_chunk(chunk as usize)?;
            let header = self.records.header(chunk);
            chunks += 1;
            populated += header.populated.count_ones();
            empty += header.empty;
            objects += self.records.chunk(chunk).object_runs().count() as u32;
            from = chunk + 1;
        }
        equal("empty pages of all chunks", empty, self.statistics.empty_pages as u32)?;
        equal("populated pages of all chunks", populated, self.statistics.populated_pages as u32)?;
        equal("number of chunks", chunks, self.statistics.chunks as u32)?;
        equal("objects of all chunks", objects, self.statistics.objects() as u32)?;
        equal("chunks in lists", chunks, self.verify_lists()?)
    }

    /// Verifies the links of all lists and returns the number of chunks in them.
    fn verify_lists(&self) -> Result<u32, Violation> {
        let mut count = 0;
        for list in 0..=self.lists.free() {
            let mut previous = NONE;
            let mut chunk = self.lists.head(list);
            while chunk != NONE {
                let header = self.records.header(chunk);
                equal("list of a chunk in a list", list, header.list)?;
                equal("previous chunk in a list", previous, header.previous)?;
                count += 1;
                (previous, chunk) = (chunk, header.next);
            }
            equal("tail of a list", previous, self.lists.ends[list as usize].tail)?;
            let occupied = u32::from(previous != NONE);
            equal("bit of a list", occupied, (self.lists.occupied >> list & 1) as u32)?;
        }
        Ok(count)
    }

    /// Verifies one chunk: its hints, those of its pages, its counts and its list.
    ///
    /// # Errors
    /// The first violation; also when there is no such chunk.
    pub(crate) fn verify_chunk(&mut self, chunk: usize) -> Result<(), Violation> {
        let number = chunk as u32;
        let here = |violation| Violation { chunk: Some(chunk), ..violation };
        check(self.records.is_live(number), "live chunk", 1, 0).map_err(here)?;
        let view = self.records.chunk(number);
        for page in 0..view.pages.len() {
            view.verify_page(page)
                .map_err(|violation| Violation { page: Some(page), ..here(violation) })?;
        }
        view.verify_chunk_hints().map_err(here)?;
        view.verify_counts().map_err(here)?;
        self.verify_list(number).map_err(here)
    }

    fn verify_list(&self, chunk: u32) -> Result<(), Violation> {
        let header = self.records.header(chunk);
        let list = header.list;
        let expected = self.list_for(chunk);
        let sidelined = list == self.lists.sidelined && expected != self.lists.free();
        let relegated = list == FULL && is_small(expected);
        check(sidelined || relegated || list == expected, "list", expected, list)
    }

    /// Allocates one object.
    pub(crate) fn alloc(&mut self, size: usize, align: usize) -> Result<usize, Error> {
        let mut offset = [0];
        self.alloc_many(size, align, &mut offset).map(|_| offset[0])
    }

    /// Frees one object; returns its bytes, rounded up to 4.
    pub(crate) fn free(&mut self, offset: usize) -> Result<usize, FreeError> {
        let bytes = self.object(offset).map(|(_, area)| bytes_of(area.bits()));
        self.free_many(&[offset]).map_err(|(_, error)| error)?;
        bytes
    }

    /// The backing.
    pub(crate) fn backing(&self) -> &B {
        &self.backing
    }

    /// The backing, for changes.
    pub(crate) fn backing_mut(&mut self) -> &mut B {
        &mut self.backing
    }

    /// The configuration of the allocator.
    pub(crate) fn config(&self) -> Config {
        self.geometry.config
    }

    /// Numbers of the chunks that exist, in order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = usize> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let chunk = self.records.next_live(from)?;
            from = chunk + 1;
            Some(chunk as usize)
        })
    }

    /// True when a chunk's empty pages were depopulated.
    pub(crate) fn is_sidelined(&self, chunk: usize) -> bool {
        self.records.header(chunk as u32).list == self.lists.sidelined
    }

    /// Bytes of one slot in objects at this moment.
    pub(crate) fn allocated_bytes(&mut self) -> usize {
        let mut bytes = 0;
        self.for_each_object(|_, size| bytes += size);
        bytes
    }

    /// Calls `see` with each object's offset and bytes, rounded up to 4, in order of offset.
    pub(crate) fn for_each_object(&mut self, mut see: impl FnMut(usize, usize)) {
        let mut from = 0;
        while let Some(chunk) = self.records.next_live(from) {
            let view = self.records.chunk(chunk);
            for object in view.object_runs() {
                see(self.geometry.offset(chunk, object.start), bytes_of(object.bits()));
            }
            from = chunk + 1;
        }
    }

    /// Pages of a chunk that count as populated, one bit each; 0 when the chunk does not exist.
    pub(crate) fn populated_pages_of(&self, chunk: usize) -> u64 {
        match u32::try_from(chunk) {
            Ok(chunk) if self.records.is_live(chunk) => self.records.header(chunk).populated,
            _ => 0,
        }
    }
}

impl Chunk<'_> {
    /// The objects, in order.
    fn object_runs(&self) -> impl Iterator<Item = Run> {
        let end = self.header.hints.bits;
        let mut at = 0;
        core::iter::from_fn(move || {
            let start = bits::next_one(self.allocated, at, end);
            at = bits::next_one(self.bounds, start + 1, end);
            (start < end).then_some(Run { start, end: at })
        })
    }

    fn verify_page(&self, index: usize) -> Result<(), Violation> {
        let words = &self.allocated[index * PAGE_WORDS..(index + 1) * PAGE_WORDS];
        let hints = self.pages[index];
        equal("bits of a page", PAGE_BITS, hints.bits)?;
        let first_free = bits::next_zero(words, 0, PAGE_BITS);
        equal("first free bit of a page", first_free, hints.first_free)?;
        equal("left run of a page", bits::next_one(words, 0, PAGE_BITS), hints.left)?;
        let right = PAGE_BITS - bits::run_start(words, PAGE_BITS, 0);
        equal("right run of a page", right, hints.right)?;
        verify_hints(words, &hints)
    }

    fn verify_chunk_hints(&self) -> Result<(), Violation> {
        let hints = self.header.hints;
        equal("bits of a chunk", self.pages.len() as u32 * PAGE_BITS, hints.bits)?;
        let first_free = bits::next_zero(self.allocated, 0, hints.bits);
        equal("first free bit of a chunk", first_free, hints.first_free)?;
        verify_hints(self.allocated, &hints)?;
        let mut refreshed = hints;
        // From the first free bit on.
        refreshed.scan = Run::EMPTY;
        refresh::chunk(&mut refreshed, self.pages, &Work::new());
        verify_hints(self.allocated, &refreshed)
    }

    fn verify_counts(&self) -> Result<(), Violation> {
        let header = &*self.header;
        let free: u32 = self.allocated.iter().map(|word| word.count_zeros()).sum();
        equal("free bits of a chunk", free, header.free_bits)?;
        let empty = (self.free_pages() & header.populated).count_ones();
        equal("empty pages of a chunk", empty, header.empty)?;
        for object in self.object_runs() {
            let is_populated = mask(object.pages()) & !header.populated == 0;
            check(is_populated, "populated", 1, 0)?;
            check(bits::is_one(self.bounds, object.start), "begin of an object", 1, 0)?;
            let whole = bits::next_zero(self.allocated, object.start, object.end);
            equal("allocated bits of an object", object.end, whole)?;
        }
        let used = !self.free_pages() & mask(Run::new(0, header.hints.bits).pages());
        check(used & !header.populated == 0, "populated pages in use", 0, 1)
    }
}

/// Verifies the hints of a span against its bitmap.
fn verify_hints(map: &[u64], hints: &Hints) -> Result<(), Violation> {
    let (contig, scan) = (hints.contig, hints.scan);
    let (mut longest, mut before, mut contig_is_run, mut scan_is_run) = (0, 0, false, false);
    for run in bits::zero_runs(map, 0, hints.bits) {
        longest = longest.max(run.bits());
        if run.start < contig.start {
            before = before.max(run.bits());
        }
        contig_is_run |= run == contig;
        scan_is_run |= run == scan;
    }
    equal("contig hint", longest, contig.bits())?;
    for run in [contig, scan].into_iter().filter(|run| !run.is_empty()) {
        let end = bits::next_one(map, run.start, run.end.max(run.start));
        check(end == run.end && end <= hints.bits, "free bits of a hint", end, run.end)?;
    }
    if !contig.is_empty() {
        check(contig_is_run, "contig hint is a whole run", 1, 0)?;
    }
    for run in [contig, scan].into_iter().filter(|run| run.is_empty()) {
        equal("end of a hint that is not set", 0, run.end)?;
    }
    if scan.is_empty() {
        return Ok(());
    }
    check(scan_is_run, "scan hint is a whole run", 1, 0)?;
    if scan.start > contig.start {
        return equal("scan hint after contig", contig.bits(), scan.bits());
    }
    check(scan.start < contig.start, "scan hint before contig", contig.start, scan.start)?;
    equal("scan hint", before, scan.bits())
}
