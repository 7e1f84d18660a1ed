//! A backing without memory for objects, which checks its calls and can fail them.

use core::ops::Range;
use core::ptr::NonNull;
use std::collections::BTreeSet;

use crate::dynamic::{Backing, PAGE_BYTES};

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// The content of metadata that is not committed: nothing that the allocator could take for its
/// own.
const GARBAGE: u8 = 0xA5;

pub(crate) struct Arena {
    metadata: Vec<Line>,
    /// Chunks that exist.
    pub(crate) chunks: BTreeSet<usize>,
    /// Number of calls that may still succeed.
    pub(crate) allowance: usize,
    /// Number of calls that changed something.
    pub(crate) calls: usize,
    /// Pages that were depopulated.
    pub(crate) pages_given_back: usize,
}

impl Arena {
    pub(crate) fn new() -> Arena {
        let (metadata, chunks) = (Vec::new(), BTreeSet::new());
        Arena { metadata, chunks, allowance: usize::MAX, calls: 0, pages_given_back: 0 }
    }

    fn allows(&mut self) -> bool {
        self.calls += 1;
        let allows = self.allowance > 0;
        self.allowance -= usize::from(allows);
        allows
    }
}

// SAFETY: the lines are aligned, are not reallocated after they were reserved, and belong to the
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

    fn release_metadata(&mut self, range: Range<usize>, around: Range<usize>) {
        self.calls += 1;
        assert!(around.start <= range.start && range.end <= around.end);
        // More than a system with larger pages would take.
        let pages = around.start.div_ceil(PAGE_BYTES)..around.end / PAGE_BYTES;
        for page in pages {
            self.metadata[page * PAGE_BYTES / 64..(page + 1) * PAGE_BYTES / 64]
                .fill(Line([GARBAGE; 64]));
        }
    }

    fn create_chunk(&mut self, chunk: usize) -> bool {
        let allows = self.allows();
        assert!(!allows || self.chunks.insert(chunk));
        allows
    }

    fn destroy_chunk(&mut self, chunk: usize, around: Range<usize>) {
        self.calls += 1;
        assert!(self.chunks.remove(&chunk));
        assert!(
            around.contains(&chunk) && around.into_iter().all(|one| !self.chunks.contains(&one))
        );
    }

    fn depopulate(&mut self, chunk: usize, pages: Range<usize>, around: Range<usize>) {
        self.calls += 1;
        self.pages_given_back += pages.len();
        assert!(!pages.is_empty() && self.chunks.contains(&chunk));
        assert!(around.start <= pages.start && pages.end <= around.end);
    }
}
