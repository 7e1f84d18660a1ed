//! Finds space in a chunk: tests the chunk's hints, walks over those of its pages, and searches
//! the bitmap from the end of the walk.

use crate::dynamic::bits;
use crate::dynamic::chunk::Chunk;
use crate::dynamic::config::Request;
use crate::dynamic::hints::{PAGE_BITS, Run};

impl Chunk<'_> {
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
}
