//! A backing without memory for objects, which checks what it is told and can refuse.

use core::ops::Range;
use core::ptr::NonNull;
use std::collections::BTreeMap;

use sheaves_percpu::dynamic::{Backing, PAGE_BYTES};

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// What fills metadata that is not committed: nothing that the allocator could mistake for its own.
const GARBAGE: u8 = 0xA5;

pub(crate) struct Arena {
    slots: usize,
    metadata: Vec<Line>,
    /// Populated pages of each chunk that exists, for each slot.
    chunks: BTreeMap<usize, Vec<u64>>,
    /// Pages of chunk 0 that somebody else populated.
    head_pages: u64,
    /// Calls that may still succeed.
    pub(crate) allowance: usize,
    /// Calls that changed something.
    pub(crate) calls: usize,
}

impl Arena {
    pub(crate) fn new(slots: usize, head_bytes: usize) -> Arena {
        let head_pages = (1 << head_bytes.div_ceil(PAGE_BYTES)) - 1;
        let (metadata, chunks) = (Vec::new(), BTreeMap::new());
        Arena { slots, metadata, chunks, head_pages, allowance: usize::MAX, calls: 0 }
    }

    /// Populated pages of a chunk, the same in every slot.
    pub(crate) fn populated(&self, chunk: usize) -> u64 {
        let slots = &self.chunks[&chunk];
        assert!(slots.iter().all(|pages| *pages == slots[0]));
        slots[0]
    }

    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    fn allows(&mut self) -> bool {
        self.calls += 1;
        let allows = self.allowance > 0;
        self.allowance -= usize::from(allows);
        allows
    }
}

fn mask(pages: &Range<usize>) -> u64 {
    pages.clone().fold(0, |mask, page| mask | 1 << page)
}

// SAFETY: the lines are aligned, are never reallocated once they are reserved, and belong to the
// allocator; every byte is initialised.
unsafe impl Backing for Arena {
    fn reserve_metadata(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        assert!(self.metadata.is_empty());
        self.metadata = vec![Line([GARBAGE; 64]); bytes.div_ceil(64)];
        NonNull::new(self.metadata.as_mut_ptr().cast())
    }

    fn commit_metadata(&mut self, range: Range<usize>) -> bool {
        assert!(range.start.is_multiple_of(64) && range.end.is_multiple_of(64));
        assert!(range.end <= self.metadata.len() * 64);
        self.allows()
    }

    fn release_metadata(&mut self, range: Range<usize>) {
        self.calls += 1;
        let pages = range.start.div_ceil(PAGE_BYTES)..range.end / PAGE_BYTES;
        for page in pages {
            self.metadata[page * PAGE_BYTES / 64..(page + 1) * PAGE_BYTES / 64]
                .fill(Line([GARBAGE; 64]));
        }
    }

    fn create_chunk(&mut self, chunk: usize) -> bool {
        let allows = self.allows();
        if allows {
            let pages = if chunk == 0 { self.head_pages } else { 0 };
            assert!(self.chunks.insert(chunk, vec![pages; self.slots]).is_none());
        }
        allows
    }

    fn destroy_chunk(&mut self, chunk: usize) {
        self.calls += 1;
        let slots = self.chunks.remove(&chunk).unwrap();
        assert!(slots.iter().all(|pages| *pages == 0));
    }

    fn populate(&mut self, chunk: usize, pages: Range<usize>) -> bool {
        assert!(!pages.is_empty());
        let allows = self.allows();
        for slot in self.chunks.get_mut(&chunk).unwrap().iter_mut().filter(|_| allows) {
            assert_eq!(*slot & mask(&pages), 0);
            *slot |= mask(&pages);
        }
        allows
    }

    fn depopulate(&mut self, chunk: usize, pages: Range<usize>) {
        self.calls += 1;
        assert!(!pages.is_empty());
        for slot in self.chunks.get_mut(&chunk).unwrap() {
            assert_eq!(*slot & mask(&pages), mask(&pages));
            *slot &= !mask(&pages);
        }
    }
}
