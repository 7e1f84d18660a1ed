//! Recomputes hints: of a page from its part of the bitmap, of a chunk from its pages.
//!
//! Both begin at the scan hint if it is set: it becomes contig. No run before it is longer, so only
//! later runs are visited.

use crate::dynamic::bits;
use crate::dynamic::counters::Work;
use crate::dynamic::hints::{Hints, PAGE_BITS, Run};

/// Recomputes the hints of a page after contig was broken. Its first free bit and its left and
/// right runs are correct.
pub(super) fn page(page: &mut Hints, words: &[u64], work: &Work) {
    work.page_refreshed();
    let from = page.begin_refresh();
    bits::zero_runs(words, from, PAGE_BITS).for_each(|run| page.offer(run));
    work.words_read(from, PAGE_BITS - 1);
}

pub(super) fn chunk(chunk: &mut Hints, pages: &[Hints], work: &Work) {
    let from = chunk.begin_refresh();
    let mut walk = Walk { chunk, carried: Run::EMPTY, unknown: false };
    let first = (from / PAGE_BITS) as usize;
    for (index, page) in pages.iter().enumerate().skip(first) {
        let base = index as u32 * PAGE_BITS;
        walk.page(page, base, from.saturating_sub(base));
    }
    walk.finish();
    work.pages_refreshed(pages.len().saturating_sub(first));
}

struct Walk<'a> {
    chunk: &'a mut Hints,
    /// The run at the right edge of the previous page; empty when there is none.
    carried: Run,
    /// Runs that were not entered may exist before the carried run, in its first page.
    unknown: bool,
}

impl Walk<'_> {
    /// Visits one page, whose first bit is `base`; runs that begin before `resume` do not count.
    #[inline]
    fn page(&mut self, page: &Hints, base: u32, resume: u32) {
        if resume == 0 {
            if self.carried.is_empty() {
                self.carried = Run::new(base, 0);
                self.unknown = false;
            }
            self.carried.end += page.left;
            if page.is_free() {
                return;
            }
        }
        self.finish();
        let contig = page.contig;
        if contig.start != 0 && contig.end != PAGE_BITS && contig.start >= resume {
            self.interior(page, base, resume);
        }
        let tail = PAGE_BITS - page.right;
        if page.right > 0 && tail >= resume {
            self.carried = Run { start: base + tail, end: base + PAGE_BITS };
            self.unknown = contig.start == tail && !page.nothing_before_contig();
            if self.unknown && !page.scan.is_empty() {
                let tail = core::mem::replace(&mut self.carried, Run::EMPTY);
                self.enter_scan(page, base, resume);
                (self.carried, self.unknown) = (tail, false);
            }
        }
    }

    /// Enters contig of a page where it touches no edge.
    #[inline]
    fn interior(&mut self, page: &Hints, base: u32, resume: u32) {
        let unknown = page.scan.is_empty() && !page.nothing_before_contig();
        let scan_first = page.scan.start < page.contig.start;
        if scan_first {
            self.enter_scan(page, base, resume);
        }
        self.enter(page.contig.after(base), unknown);
        if !scan_first {
            self.enter_scan(page, base, resume);
        }
    }

    /// Enters the scan hint of a page, so that the chunk's scan hint is not shorter than a run
    /// before the chunk's contig.
    #[inline]
    fn enter_scan(&mut self, page: &Hints, base: u32, resume: u32) {
        if !page.scan.is_empty() && page.scan.start >= resume {
            self.enter(page.scan.after(base), false);
        }
    }

    #[inline]
    fn finish(&mut self) {
        if !self.carried.is_empty() {
            self.enter(self.carried, self.unknown);
        }
        self.carried = Run::EMPTY;
    }

    /// `unknown`: runs that were not entered may exist before the run, in its page.
    #[inline]
    fn enter(&mut self, run: Run, unknown: bool) {
        let contig = self.chunk.contig.bits();
        self.chunk.offer(run);
        if unknown && self.chunk.contig.bits() > contig {
            self.chunk.scan = Run::EMPTY;
        }
    }
}
