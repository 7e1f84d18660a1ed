//! What an allocator is to a table.

use core::hint::black_box;

use crate::harness::{Contender, Failure, Sampler, out_of_memory};

/// Hands out objects and takes them back.
///
/// The size is passed on both sides; a contender without a sized form ignores it when freeing, and
/// one made for a single size ignores it altogether.
pub(crate) trait Allocator: Send + Sync + 'static {
    /// Whether its objects can be written to.
    const HAS_MEMORY: bool = true;

    fn alloc(&self, size: usize) -> *mut u8;

    /// Takes an object back.
    ///
    /// # Safety
    /// `object` came from `alloc(size)` of this contender and was not freed since.
    unsafe fn free(&self, object: *mut u8, size: usize);

    /// C's `realloc`; null where there is no such form.
    ///
    /// # Safety
    /// As [`Allocator::free`]: the object is taken back, if the result is not null.
    unsafe fn realloc(&self, _object: *mut u8, _size: usize) -> *mut u8 {
        core::ptr::null_mut()
    }

    /// C's `calloc` of one object; null where there is no such form.
    fn calloc(&self, _size: usize) -> *mut u8 {
        core::ptr::null_mut()
    }

    /// Asks how much memory is in use, as `mallinfo2` does; false where there is no call for that.
    fn ask_statistics(&self) -> bool {
        false
    }

    /// Gives free memory back to the kernel; false where there is no call for that.
    fn trim(&self) -> bool {
        false
    }

    /// Runs once on each thread before it uses the contender in a sample.
    fn enter_thread(&self) {}
}

pub(crate) trait Workload: Copy + 'static {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure>;

    /// A contender that is made without more.
    fn contender<A: Allocator>(self, name: &'static str, make: fn() -> A) -> Contender {
        Contender::new(name, move || self.sampler(make()))
    }
}

/// Writes the first byte of a fresh object, as any program would, and keeps the compiler from
/// concluding that the object is never used.
#[inline]
pub(crate) fn touch(object: *mut u8) {
    if object.is_null() {
        out_of_memory();
    }
    // SAFETY: the object is live and at least one byte; volatile, so that the write is not dropped.
    unsafe { object.write_volatile(14) };
    black_box(object);
}
