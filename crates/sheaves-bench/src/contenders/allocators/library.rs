//! The three forms of Sheaves, and the set of caches for mixed sizes.

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::ptr::NonNull;

use sheaves::Sheaves;
use sheaves::raw::{Cache, Options};

use super::allocator::Allocator;
use crate::harness::Failure;

/// Largest size of the workloads with mixed sizes, in bytes.
pub(crate) const MIXED_MAX: usize = 1016;
/// Distance between two caches of [`BySteps`], in bytes.
const STEP: usize = 16;
/// Alignment of every benchmark object, in bytes.
const ALIGN: usize = 8;
const STEPS: usize = MIXED_MAX.div_ceil(STEP) + 1;

/// The layout of a benchmark object: aligned to 8 bytes, as most Rust types are at most.
#[inline]
pub(crate) fn layout_of(size: usize) -> Layout {
    // SAFETY: 8 is a power of two, and no size is above a few KiB. Checked, it would cost the
    // contenders that are told a layout what no real program pays, where the layout is constant.
    unsafe { Layout::from_size_align_unchecked(size, ALIGN) }
}

/// Makes the raw cache under the contenders `cache`, `locked` and `tid`.
pub(crate) fn make_cache(name: &str, size: usize) -> Result<Cache, Failure> {
    Cache::new(name, layout_of(size), Options::default())
        .map_err(|error| Failure::run(format!("no cache of {size} bytes: {error:?}")))
}

/// `cache`: a named cache, inlined into the caller.
impl Allocator for Cache {
    #[inline]
    fn alloc(&self, _size: usize) -> *mut u8 {
        self.alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline]
    unsafe fn free(&self, object: *mut u8, _size: usize) {
        // SAFETY: the object came from `alloc`, which never hands out null to be freed.
        let object = unsafe { NonNull::new_unchecked(object) };
        // SAFETY: it came from this cache and is given up here.
        unsafe { self.free(object) }
    }
}

/// `sized`: what `Box` and `Vec` do under `#[global_allocator]`, inlined as there.
pub(crate) struct Sized;

static SHEAVES: Sheaves = Sheaves::new();

impl Allocator for Sized {
    #[inline]
    fn alloc(&self, size: usize) -> *mut u8 {
        // SAFETY: the size is never 0: the command line refuses it.
        unsafe { SHEAVES.alloc(layout_of(size)) }
    }

    #[inline]
    unsafe fn free(&self, object: *mut u8, size: usize) {
        // SAFETY: the object was allocated with this very layout.
        unsafe { SHEAVES.dealloc(object, layout_of(size)) }
    }
}

/// `malloc`: two C functions that are called, and a free that is not told the size.
pub(crate) struct Malloc;

impl Allocator for Malloc {
    #[inline]
    fn alloc(&self, size: usize) -> *mut u8 {
        sheaves_heap::malloc(size)
    }

    #[inline]
    unsafe fn free(&self, object: *mut u8, _size: usize) {
        // SAFETY: the object came from `alloc`.
        unsafe { sheaves_heap::free(object) }
    }

    unsafe fn realloc(&self, object: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the object came from `alloc`.
        unsafe { sheaves_heap::realloc(object, size) }
    }

    fn calloc(&self, size: usize) -> *mut u8 {
        sheaves_heap::calloc(1, size)
    }

    fn ask_statistics(&self) -> bool {
        black_box(sheaves_heap::report::totals());
        true
    }

    fn trim(&self) -> bool {
        sheaves_heap::trim(0);
        true
    }
}

/// A contender made for one size, once for every 16 bytes: what a program with named caches does
/// for buffers of mixed length.
pub(crate) struct BySteps<C> {
    steps: Vec<C>,
}

impl<C> BySteps<C> {
    pub(crate) fn new(make: impl Fn(usize) -> Result<C, Failure>) -> Result<BySteps<C>, Failure> {
        let sizes = (0..STEPS).map(|step| STEP.max(step * STEP));
        Ok(BySteps { steps: sizes.map(make).collect::<Result<_, _>>()? })
    }
}

impl<C: Allocator> Allocator for BySteps<C> {
    #[inline]
    fn alloc(&self, size: usize) -> *mut u8 {
        self.steps[size.div_ceil(STEP)].alloc(size)
    }

    #[inline]
    unsafe fn free(&self, object: *mut u8, size: usize) {
        // SAFETY: the same size leads to the same step that handed the object out.
        unsafe { self.steps[size.div_ceil(STEP)].free(object, size) }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/contenders_allocators_library.rs"]
mod tests;
