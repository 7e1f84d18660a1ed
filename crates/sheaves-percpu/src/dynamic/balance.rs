//! Deferred work of the allocator: chunks are destroyed and pages depopulated.

use crate::dynamic::allocator::{Allocator, EMPTY_PAGES_HIGH};
use crate::dynamic::backing::Backing;
use crate::dynamic::chunk::ranges;
use crate::dynamic::lists::NONE;

impl<B: Backing> Allocator<B> {
    /// Does the work that [`Allocator::balance_wanted`] reports. Calls the backing once for each
    /// chunk and each range of pages that it returns.
    pub fn balance(&mut self) {
        self.balance_wanted = false;
        self.destroy_free_chunks(false);
        self.reclaim();
        self.destroy_free_chunks(true);
    }

    /// Returns everything without an object, even what [`Allocator::balance`] keeps for later
    /// requests. The result is the number of pages.
    pub fn trim(&mut self) -> usize {
        self.balance_wanted = false;
        let before = self.statistics.populated_pages;
        let mut from = 0;
        while let Some(chunk) = self.records.next_live(from) {
            let header = self.records.header(chunk);
            let isolated = header.isolated;
            if header.free_bits == self.geometry.bits {
                self.destroy(chunk);
            } else {
                self.depopulate_empty(chunk);
                if isolated {
                    self.reintegrate(chunk);
                }
            }
            from = chunk + 1;
        }
        (before - self.statistics.populated_pages) as usize
    }

    /// True when there are two or more free chunks.
    pub(super) fn has_two_free(&self) -> bool {
        let head = self.lists.head(self.lists.free());
        head != NONE && self.records.header(head).next != NONE
    }

    /// Destroys all chunks without an object except one. `bare`: only those without populated
    /// pages.
    fn destroy_free_chunks(&mut self, bare: bool) {
        let head = self.lists.head(self.lists.free());
        if head == NONE {
            return;
        }
        let mut chunk = self.records.header(head).next;
        while chunk != NONE {
            let header = self.records.header(chunk);
            let next = header.next;
            if !bare || header.populated == 0 {
                self.destroy(chunk);
            }
            chunk = next;
        }
    }

    /// Destroys a chunk without an object.
    fn destroy(&mut self, chunk: u32) {
        self.depopulate(chunk, self.records.header(chunk).populated);
        self.lists.remove(&mut self.records, chunk);
        self.records.close(chunk, &mut self.backing);
        self.backing.destroy_chunk(chunk as usize);
        self.statistics.chunks -= 1;
    }

    /// True when a chunk has enough empty pages to depopulate them.
    #[inline]
    pub(super) fn should_reclaim(&self, chunk: u32) -> bool {
        let header = self.records.header(chunk);
        if header.isolated {
            return header.empty > 0;
        }
        self.statistics.empty_pages > EMPTY_PAGES_HIGH + u64::from(header.empty)
            && header.empty >= self.geometry.pages / 4
    }

    /// Takes a chunk out of the search until its empty pages are depopulated.
    #[cold]
    pub(super) fn isolate(&mut self, chunk: u32) {
        let list = self.lists.to_depopulate();
        let header = self.records.header_mut(chunk);
        if !header.isolated {
            header.isolated = true;
            self.statistics.empty_pages -= u64::from(header.empty);
        }
        self.lists.remove(&mut self.records, chunk);
        self.lists.add(&mut self.records, chunk, list, true);
    }

    /// Makes an isolated chunk an ordinary one.
    pub(super) fn reintegrate(&mut self, chunk: u32) {
        let header = self.records.header_mut(chunk);
        header.isolated = false;
        self.statistics.empty_pages += u64::from(header.empty);
        self.update_list(chunk);
    }

    /// Depopulates the empty pages of the chunks that were isolated for that.
    fn reclaim(&mut self) {
        loop {
            let chunk = self.lists.head(self.lists.to_depopulate());
            if chunk == NONE {
                return;
            }
            // Too few empty pages are left elsewhere, so these are kept.
            let keep = self.statistics.empty_pages < EMPTY_PAGES_HIGH;
            if !keep {
                self.depopulate_empty(chunk);
            }
            if keep || self.records.header(chunk).free_bits == self.geometry.bits {
                self.reintegrate(chunk);
            } else {
                self.lists.remove(&mut self.records, chunk);
                let sidelined = self.lists.sidelined();
                self.lists.add(&mut self.records, chunk, sidelined, false);
            }
        }
    }

    fn depopulate_empty(&mut self, chunk: u32) {
        let view = self.records.chunk(chunk);
        let pages = view.free_pages() & view.header.populated;
        self.depopulate(chunk, pages);
    }

    /// Depopulates pages of a chunk that are populated and without an object.
    fn depopulate(&mut self, chunk: u32, pages: u64) {
        for range in ranges(pages) {
            let range = range.start as usize..range.end as usize;
            self.backing.depopulate(chunk as usize, range);
        }
        let count = pages.count_ones();
        let header = self.records.header_mut(chunk);
        header.populated &= !pages;
        header.empty -= count;
        if !header.isolated {
            self.statistics.empty_pages -= u64::from(count);
        }
        self.statistics.populated_pages -= u64::from(count);
    }
}
