//! One chunk: its bitmaps and hints, how space is found in it, and how they change when an area is
//! allocated or freed. A search walks over the hints of pages, and reads the bitmap from the end of
//! the walk on.

use core::ops::Range;

use crate::dynamic::bits;
use crate::dynamic::config::Request;
use crate::dynamic::counters::Work;
use crate::dynamic::hints::{Hints, PAGE_BITS, PAGE_WORDS, Run};
use crate::dynamic::refresh;

/// The summary of a chunk: the only cache line that a search reads in a chunk that does not fit.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Header {
    /// Hints of the whole chunk; left and right are not maintained.
    pub(super) hints: Hints,
    /// Neighbours in the list, and the list itself.
    pub(super) next: u32,
    pub(super) previous: u32,
    pub(super) list: u32,
    /// Zero bits of the allocation bitmap.
    pub(super) free_bits: u32,
    /// One bit per page: is it populated?
    pub(super) populated: u64,
    /// Populated pages without an object.
    pub(super) empty: u32,
}

#[derive(Debug)]
pub(super) struct Chunk<'a> {
    pub(super) header: &'a mut Header,
    pub(super) pages: &'a mut [Hints],
    /// One bit per grain: is an object there?
    pub(super) allocated: &'a mut [u64],
    /// Ones at the beginning of an object and after its end; stale in free memory, until an object
    /// is placed there.
    pub(super) bounds: &'a mut [u64],
    pub(super) work: &'a Work,
}

impl Chunk<'_> {
    /// Makes it a chunk in no list, without an object and without populated pages.
    pub(super) fn clear(&mut self) {
        let pages = self.pages.len() as u32;
        let bits = pages * PAGE_BITS;
        *self.header = Header {
            hints: Hints::free(bits),
            next: 0,
            previous: 0,
            list: 0,
            free_bits: bits,
            populated: 0,
            empty: 0,
        };
        self.pages.fill(Hints::free(PAGE_BITS));
        self.allocated.fill(0);
        self.bounds.fill(0);
    }

    /// A free area for the request, in a chunk whose longest run is long enough.
    #[inline]
    pub(super) fn find(&self, request: Request) -> Option<Run> {
        let from = self.walk(self.header.hints.resume(request.bits), request)?;
        if request.bits > bits::ZERO_RUN_MAX {
            return self.first_fit(from, from + request.bits + PAGE_BITS, request);
        }
        let (end, count) = (self.header.hints.bits, request.bits);
        let place = bits::zero_run(self.allocated, from, end, count, request.align_mask)?;
        let area = Run::new(place, count);
        self.work.words_read(from, area.end);
        Some(area)
    }

    /// Walks over the pages' hints from a bit on. Returns the bit where the search of the bitmap
    /// begins: that of the space, or of a smaller hole before it.
    #[inline]
    fn walk(&self, from: u32, request: Request) -> Option<u32> {
        // The free run at the end of the previous page, from its first aligned bit on.
        let mut run = Run::EMPTY;
        let first = (from / PAGE_BITS) as usize;
        for (index, page) in self.pages.iter().enumerate().skip(first) {
            let base = index as u32 * PAGE_BITS;
            let resume = from.saturating_sub(base);
            if resume == 0 {
                if run.is_empty() {
                    run = Run::new(base, 0);
                }
                run.end += page.left;
                if run.bits() >= request.bits {
                    return Some(run.start);
                }
                if page.is_free() {
                    continue;
                }
            }
            let fits = request.place_in(page.contig).is_some();
            if fits && page.contig.start >= resume {
                let alone = page.only_contig_fits(request.bits);
                let begin = if alone { page.contig.start } else { page.resume(request.bits) };
                return Some(base + begin.max(resume));
            }
            let end = base + PAGE_BITS;
            let tail = PAGE_BITS - page.right;
            let usable = page.right > 0 && tail >= resume;
            let start = if usable { request.align_up(base + tail).min(end) } else { end };
            run = Run { start, end };
        }
        None
    }

    /// The first area for the request between two bits, found in the bitmap alone.
    pub(super) fn first_fit(&self, from: u32, end: u32, request: Request) -> Option<Run> {
        let end = end.min(self.header.hints.bits);
        let mut runs = bits::zero_runs(self.allocated, from, end);
        let area = runs.find_map(|run| request.place_in(run));
        self.work.words_read(from, area.map_or(end, |area| area.end));
        area
    }

    /// Makes a free area an object. Returns by how much the number of empty pages falls.
    pub(super) fn alloc(&mut self, area: Run) -> u32 {
        bits::set_range(self.allocated, area.start, area.end);
        bits::mark_ends(self.bounds, area.start, area.end);
        self.header.free_bits -= area.bits();
        let filled = self.count_populated(area, |chunk, page| chunk.alloc_in_page(page, area));
        self.header.empty -= filled;
        self.alloc_in_chunk(area);
        filled
    }

    /// Calls `change` with each page of an area; returns for how many populated pages it was true.
    #[inline(always)]
    fn count_populated(&mut self, area: Run, change: impl Fn(&mut Self, usize) -> bool) -> u32 {
        let mut selected = 0;
        for page in area.pages() {
            selected |= u64::from(change(self, page as usize)) << page;
        }
        (selected & self.header.populated).count_ones()
    }

    /// [`Chunk::alloc`] for one page; true when the page was entirely free.
    #[inline]
    fn alloc_in_page(&mut self, index: usize, area: Run) -> bool {
        let part = area.in_page(index);
        let words = &self.allocated[index * PAGE_WORDS..(index + 1) * PAGE_WORDS];
        let page = &mut self.pages[index];
        let was_free = page.is_free();
        if part.bits() == PAGE_BITS {
            *page = Hints::full(PAGE_BITS);
            return was_free;
        }
        let alone = page.nothing_before_contig();
        if part.start == page.first_free {
            page.first_free = bits::next_zero(words, part.end, PAGE_BITS);
            self.work.words_read(part.end, page.first_free);
        }
        if page.take(part, alone) {
            refresh::page(page, words, self.work);
        }
        was_free
    }

    #[inline]
    fn alloc_in_chunk(&mut self, area: Run) {
        let hints = &mut self.header.hints;
        let alone = hints.nothing_before_contig();
        if area.start == hints.first_free {
            // The last page has already found its own first free bit.
            let last = area.pages().end;
            let page = &self.pages[last as usize - 1];
            hints.first_free = if page.first_free < PAGE_BITS {
                (last - 1) * PAGE_BITS + page.first_free
            } else {
                let found = bits::next_zero(self.allocated, last * PAGE_BITS, hints.bits);
                self.work.words_read(last * PAGE_BITS, found);
                found
            };
        }
        if hints.take(area, alone) {
            refresh::chunk(hints, self.pages, self.work);
        }
    }

    /// Makes an object free memory. Returns by how much the number of empty pages rises.
    pub(super) fn free(&mut self, area: Run) -> u32 {
        bits::clear_range(self.allocated, area.start, area.end);
        self.header.free_bits += area.bits();
        let run = Run { start: self.run_start(area.start), end: self.run_end(area.end) };
        let emptied = self.count_populated(run, |chunk, page| {
            let part = run.in_page(page);
            chunk.pages[page].offer(part);
            part.bits() == PAGE_BITS
        });
        self.header.empty += emptied;
        let run = self.coalesce(run);
        self.header.hints.offer(run);
        emptied
    }

    /// Start of the free run that ends at the start of a freed area, in the area's first page.
    #[inline]
    fn run_start(&self, start: u32) -> u32 {
        let base = start & !(PAGE_BITS - 1);
        let contig = self.pages[(base / PAGE_BITS) as usize].contig.after(base);
        if contig.end == start {
            return contig.start;
        }
        let found = bits::run_start(self.allocated, start, base);
        self.work.words_read(found, start);
        found
    }

    /// End of the free run that begins at the end of a freed area, in the area's last page.
    #[inline]
    fn run_end(&self, end: u32) -> u32 {
        let base = (end - 1) & !(PAGE_BITS - 1);
        let contig = self.pages[(base / PAGE_BITS) as usize].contig.after(base);
        if contig.start == end {
            return contig.end;
        }
        let found = bits::next_one(self.allocated, end, base + PAGE_BITS);
        self.work.words_read(end, found);
        found
    }

    /// Extends a run that is complete within its pages to the complete run in the chunk.
    #[inline]
    fn coalesce(&self, mut run: Run) -> Run {
        while run.start.is_multiple_of(PAGE_BITS) && run.start > 0 {
            let right = self.pages[(run.start / PAGE_BITS) as usize - 1].right;
            if right == 0 {
                break;
            }
            run.start -= right;
        }
        while run.end.is_multiple_of(PAGE_BITS) && run.end < self.header.hints.bits {
            let left = self.pages[(run.end / PAGE_BITS) as usize].left;
            if left == 0 {
                break;
            }
            run.end += left;
        }
        run
    }

    #[inline]
    pub(super) fn object_at(&self, bit: u32) -> Option<Run> {
        if !bits::is_one(self.allocated, bit) || !bits::is_one(self.bounds, bit) {
            return None;
        }
        let end = bits::next_one(self.bounds, bit + 1, self.header.hints.bits + 1);
        self.work.words_read(bit, end);
        Some(Run { start: bit, end: end.min(self.header.hints.bits) })
    }

    /// True when an object began or ended at a bit where none is now.
    pub(super) fn was_bound(&self, bit: u32) -> bool {
        !bits::is_one(self.allocated, bit) && bits::is_one(self.bounds, bit)
    }

    pub(super) fn free_pages(&self) -> u64 {
        let free = self.pages.iter().enumerate().filter(|(_, page)| page.is_free());
        free.fold(0, |pages, (page, _)| pages | 1 << page)
    }
}

/// Pages as bits; at least one page and at most 64.
#[inline(always)]
pub(super) fn mask(pages: Range<u32>) -> u64 {
    (u64::MAX >> (u64::BITS - (pages.end - pages.start))) << pages.start
}

pub(super) fn ranges(mut pages: u64) -> impl Iterator<Item = Range<u32>> {
    core::iter::from_fn(move || {
        if pages == 0 {
            return None;
        }
        let start = pages.trailing_zeros();
        let end = start + (pages >> start).trailing_ones();
        pages &= !mask(start..end);
        Some(start..end)
    })
}

/// The maximal range of consecutive pages in a bit set that has a page of it.
pub(super) fn run_around(pages: u64, page: u32) -> Range<u32> {
    let before = (pages << (u64::BITS - 1 - page)).leading_ones();
    page + 1 - before..page + (pages >> page).trailing_ones()
}

const _: () = assert!(size_of::<Header>() == 64);
