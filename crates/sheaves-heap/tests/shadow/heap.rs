//! The calls of a heap under test, and the real heap.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use sheaves_slab::raw::{Cache, DestroyError, Options};

use crate::op::CACHES;

/// A heap under test. Every `None` means out of memory.
///
/// # Safety
/// None for implementors: the broken heaps break these promises on purpose. For the unsafe methods,
/// the block came from this heap by the matching call and is used no more.
pub(crate) trait Heap: Sync {
    fn malloc(&self, size: usize) -> Option<NonNull<u8>>;
    fn calloc(&self, count: usize, size: usize) -> Option<NonNull<u8>>;
    fn aligned_alloc(&self, align: usize, size: usize) -> Option<NonNull<u8>>;
    fn alloc_layout(&self, layout: Layout) -> Option<NonNull<u8>>;
    /// # Safety
    /// As the trait says.
    unsafe fn dealloc_layout(&self, block: NonNull<u8>, layout: Layout);
    /// # Safety
    /// As the trait says.
    unsafe fn realloc(&self, block: NonNull<u8>, size: usize) -> Option<NonNull<u8>>;
    /// # Safety
    /// As the trait says.
    unsafe fn free(&self, block: NonNull<u8>);
    /// # Safety
    /// The block is alive.
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize;

    fn cache_layout(&self, cache: usize) -> Layout;
    fn cache_alloc(&self, cache: usize) -> Option<NonNull<u8>>;
    /// # Safety
    /// As the trait says.
    unsafe fn cache_free(&self, cache: usize, object: NonNull<u8>);
    fn cache_alloc_bulk(&self, cache: usize, count: usize) -> Vec<NonNull<u8>>;
    /// # Safety
    /// As the trait says, for each object.
    unsafe fn cache_free_bulk(&self, cache: usize, objects: &[NonNull<u8>]);
    fn cache_shrink(&self, cache: usize);
    fn trim(&self);
    /// Objects of the caches that are in use.
    fn objects_out(&self) -> usize;
}

/// The heap of this project, with a few caches.
#[derive(Debug)]
pub(crate) struct Sheaves {
    caches: Vec<(Cache, Layout)>,
}

/// Sizes and alignments of the caches: tiny, odd, over-aligned, large, the largest.
const SHAPES: [(usize, usize); CACHES] =
    [(8, 8), (24, 8), (100, 4), (64, 64), (3000, 512), (65536, 4096)];

impl Sheaves {
    pub(crate) fn new() -> Sheaves {
        let make = |(size, align)| {
            let layout = Layout::from_size_align(size, align).unwrap();
            (Cache::new("shadow", layout, Options::default()).unwrap(), layout)
        };
        Sheaves { caches: SHAPES.map(make).into() }
    }

    /// Destroys the caches, which is an error while an object is out.
    pub(crate) fn destroy(self) -> Result<(), DestroyError> {
        self.caches.into_iter().try_for_each(|(cache, _)| cache.destroy())
    }
}

impl Heap for Sheaves {
    fn malloc(&self, size: usize) -> Option<NonNull<u8>> {
        NonNull::new(sheaves_heap::malloc(size))
    }

    fn calloc(&self, count: usize, size: usize) -> Option<NonNull<u8>> {
        NonNull::new(sheaves_heap::calloc(count, size))
    }

    fn aligned_alloc(&self, align: usize, size: usize) -> Option<NonNull<u8>> {
        NonNull::new(sheaves_heap::aligned_alloc(align, size))
    }

    fn alloc_layout(&self, layout: Layout) -> Option<NonNull<u8>> {
        NonNull::new(sheaves_heap::alloc_layout(layout))
    }

    unsafe fn dealloc_layout(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the same contract.
        unsafe { sheaves_heap::dealloc_layout(block.as_ptr(), layout) }
    }

    unsafe fn realloc(&self, block: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
        // SAFETY: the same contract.
        NonNull::new(unsafe { sheaves_heap::realloc(block.as_ptr(), size) })
    }

    unsafe fn free(&self, block: NonNull<u8>) {
        // SAFETY: the same contract.
        unsafe { sheaves_heap::free(block.as_ptr()) }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the same contract.
        unsafe { sheaves_heap::usable_size(block.as_ptr()) }
    }

    fn cache_layout(&self, cache: usize) -> Layout {
        self.caches[cache].1
    }

    fn cache_alloc(&self, cache: usize) -> Option<NonNull<u8>> {
        self.caches[cache].0.alloc()
    }

    unsafe fn cache_free(&self, cache: usize, object: NonNull<u8>) {
        // SAFETY: the same contract.
        unsafe { self.caches[cache].0.free(object) }
    }

    fn cache_alloc_bulk(&self, cache: usize, count: usize) -> Vec<NonNull<u8>> {
        let mut places = vec![MaybeUninit::uninit(); count];
        let got = self.caches[cache].0.alloc_bulk(&mut places);
        places.truncate(got);
        // SAFETY: the first `got` places were filled.
        places.into_iter().map(|place| unsafe { place.assume_init() }).collect()
    }

    unsafe fn cache_free_bulk(&self, cache: usize, objects: &[NonNull<u8>]) {
        // SAFETY: the same contract.
        unsafe { self.caches[cache].0.free_bulk(objects) }
    }

    fn cache_shrink(&self, cache: usize) {
        self.caches[cache].0.shrink();
    }

    fn trim(&self) {
        sheaves_heap::trim(0);
    }

    fn objects_out(&self) -> usize {
        self.caches.iter().map(|(cache, _)| cache.stats().objects_out).sum()
    }
}
