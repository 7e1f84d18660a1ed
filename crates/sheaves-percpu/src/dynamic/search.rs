//! Finds space in a chunk: tests the chunk's hints, walks over those of its pages, and searches
//! the bitmap from the end of the walk.

use crate::dynamic::bits;
use crate::dynamic::chunk::Chunk;
use crate::dynamic::config::Request;
use crate::dynamic::hints::{Hints, PAGE_BITS, Run};

impl Chunk<'_> {
    /// A free area for the request, in a chunk whose longest run is long enough.
    #[inline]
    pub(super) fn find(&self, request: Request) -> Option<Run> {
        let from = self.walk(self.header.hints.resume(request.bits), request)?;
        if request.bits <= bits::ZERO_RUN_MAX {
            self.search_words(from, request)
        } else {
            self.first_fit(from, from + request.bits + PAGE_BITS, request)
        }
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
                return Some(base + from_in_page(page, request.bits).max(resume));
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

    /// The first free area in the bitmap from a bit on, of at most [`bits::ZERO_RUN_MAX`] bits.
    #[inline]
    fn search_words(&self, from: u32, request: Request) -> Option<Run> {
        let end = self.header.hints.bits;
        let (count, align_mask) = (request.bits, request.align_mask);
        let place = bits::zero_run(self.allocated, from, end, count, align_mask);
        let area = Run::new(place?, count);
        self.work.words_read(from, area.end);
        Some(area)
    }
}

/// The start of the search in a page that has space.
#[inline(always)]
fn from_in_page(page: &Hints, bits: u32) -> u32 {
    if page.only_contig_fits(bits) { page.contig.start } else { page.resume(bits) }
}
