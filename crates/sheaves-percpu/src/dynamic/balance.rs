//! Deferred work of the allocator: chunks are destroyed and pages depopulated.

use core::ops::Range;

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::chunk::{mask, ranges, run_around};
use crate::dynamic::lists::NONE;

/// A chunk's empty pages are kept unless the other chunks have more than this many.
const EMPTY_PAGES_HIGH: u64 = 4;

impl<B: Backing> Allocator<B> {
    /// Does the work that [`Allocator::balance_wanted`] reports: destroys all chunks without an
    /// object except one, and depopulates the pages of chunks with many empty ones. Calls the
    /// backing once for each chunk and each range of pages that it returns.
    pub fn balance(&mut self) {
        let kept = self.lists.head(self.lists.free());
        self.visit_chunks(|this, chunk| {
            if this.is_free(chunk) {
                if chunk != kept {
                    this.destroy(chunk);
                }
            } else if this.should_depopulate(chunk) {
                this.depopulate_empty(chunk);
                let sidelined = this.lists.sidelined;
                this.lists.remove(&mut this.records, chunk);
                this.lists.add(&mut this.records, chunk, sidelined, false);
            }
        });
    }

    /// Returns everything without an object, even what [`Allocator::balance`] keeps for later
    /// requests.
    pub fn trim(&mut self) {
        self.visit_chunks(|this, chunk| {
            if this.is_free(chunk) {
                this.destroy(chunk);
            } else {
                this.depopulate_empty(chunk);
            }
        });
    }

    fn visit_chunks(&mut self, visit: impl Fn(&mut Self, u32)) {
        self.balance_wanted = false;
        let mut from = 0;
        while let Some(chunk) = self.records.next_live(from) {
            visit(self, chunk);
            from = chunk + 1;
        }
    }

    pub(super) fn has_two_free(&self) -> bool {
        let head = self.lists.head(self.lists.free());
        head != NONE && self.records.header(head).next != NONE
    }

    #[inline]
    pub(super) fn should_depopulate(&self, chunk: u32) -> bool {
        let empty = self.records.header(chunk).empty;
        empty >= self.geometry.pages / 4
            && self.statistics.empty_pages > EMPTY_PAGES_HIGH + u64::from(empty)
    }

    /// Destroys a chunk without an object.
    fn destroy(&mut self, chunk: u32) {
        self.depopulate_empty(chunk);
        self.lists.remove(&mut self.records, chunk);
        let vacant = self.records.close(chunk, self.geometry.first_chunk, &mut self.backing);
        self.backing.destroy_chunk(chunk as usize, wide(vacant));
        self.statistics.chunks -= 1;
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
}

fn wide(range: Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
