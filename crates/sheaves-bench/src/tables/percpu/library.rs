//! The library's per-CPU memory, with its caches of free objects in each slot, on the engine and
//! the slots of this machine.
//!
//! `FIXED+caches` is [`PerCpu`], which is what programs use: the type says how large an object is,
//! and its owner that it is freed once. The bars are held against it. `FIXED+handles` is the form
//! for programs that know sizes at run time only: the handle is sealed and says the size, and
//! whether an object is out is noted, so that freeing twice is an error; all of that is in the
//! figure.
//!
//! Free objects are zero there: a free zeroes the object, in the slots that were used. So there is
//! nothing to be zeroed at allocation, and the figures of zeroing are those of freeing.

use core::mem::ManuallyDrop;
use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;

use sheaves_percpu::memory::{self, Handle, Statistics};
use sheaves_percpu::{PerCpu, SlotCell, Zeroed, field};

use super::contenders::PerCpuMemory;
use super::slot_memory::SlotMemory;
use super::work::{ChunkWork, Work, done_by};
use crate::harness::{Failure, out_of_memory, refused_free};

/// Bytes of a chunk in one slot, as the library has it.
pub(crate) const UNIT_BYTES: usize = 64 << 10;

/// What the library held before a contender came.
struct Before(Statistics);

impl Before {
    fn new() -> Before {
        // What the library takes for itself comes with the first object.
        drop(PerCpu::<SlotCell<u64>>::zeroed().unwrap_or_else(|_| out_of_memory()));
        // What an earlier sample left at hand would be a head start.
        memory::trim();
        Before(statistics())
    }

    fn tally(&self) -> Work {
        let now = statistics();
        let grown = |number: fn(&Statistics) -> u64| number(&now).saturating_sub(number(&self.0));
        let chunks_live = grown(|statistics| statistics.allocator.chunks);
        Work::of_chunks(ChunkWork {
            allocations: now.allocator.allocations,
            chunks_live,
            populated_pages: grown(|statistics| statistics.allocator.populated_pages),
            metadata_bytes: chunks_live * now.allocator.metadata_bytes_per_chunk as u64,
            ..done_by(now.counters)
        })
    }
}

/// There are some, as an object has been allocated.
fn statistics() -> Statistics {
    memory::statistics().unwrap_or_else(|| out_of_memory())
}

#[repr(C)]
struct Numbers<const MORE: usize> {
    first: SlotCell<u64>,
    more: [SlotCell<u64>; MORE],
}

#[repr(C, align(16))]
struct Aligned {
    first: SlotCell<u64>,
    second: SlotCell<u64>,
}

// SAFETY: zero is a valid value of the numbers.
unsafe impl<const MORE: usize> Zeroed for Numbers<MORE> {}
// SAFETY: as above.
unsafe impl Zeroed for Aligned {}

/// Does something with the type that a program would have for the objects of a size.
macro_rules! with_type {
    ($size:expr, $type:ident => $body:expr) => {
        match $size {
            8 => with_type!(@ Numbers<0>, $type => $body),
            12 => with_type!(@ [AtomicU32; 3], $type => $body),
            16 => with_type!(@ Aligned, $type => $body),
            20 => with_type!(@ [AtomicU32; 5], $type => $body),
            24 => with_type!(@ Numbers<2>, $type => $body),
            _ => with_type!(@ Numbers<3>, $type => $body),
        }
    };
    (@ $known:ty, $type:ident => $body:expr) => {{
        type $type = $known;
        $body
    }};
}

/// `FIXED+caches`. Its objects are kept as numbers, because one vector has them all.
pub(crate) struct Typed(Before);

impl PerCpuMemory for Typed {
    type Object = NonZeroU32;
    const OUTLIVED: bool = true;
    const BY_SIZE: bool = true;

    fn new(_memory: &SlotMemory) -> Result<Typed, Failure> {
        Ok(Typed(Before::new()))
    }

    #[inline]
    fn alloc(&self, size: usize, align: usize) -> NonZeroU32 {
        with_type!(size, T => {
            debug_assert!(size_of::<T>() == size && align_of::<T>() >= align);
            PerCpu::<T>::zeroed().unwrap_or_else(|_| out_of_memory()).into_raw()
        })
    }

    #[inline]
    unsafe fn zero(&self, _object: NonZeroU32, _size: usize) {}

    #[inline]
    unsafe fn free(&self, object: NonZeroU32, size: usize) {
        // SAFETY: the caller's contract: allocated with this size, hence this type.
        with_type!(size, T => drop(unsafe { PerCpu::<T>::from_raw(object) }));
    }

    #[inline]
    unsafe fn add(&self, object: NonZeroU32) {
        // SAFETY: all types with a number begin with one; `free` drops the value, this does not.
        let value = ManuallyDrop::new(unsafe { PerCpu::<Numbers<0>>::from_raw(object) });
        value.cell(field!(Numbers<0>, first)).add(1);
    }

    fn tally(&self, _objects: usize) -> Work {
        self.0.tally()
    }
}

pub(crate) struct Handles(Before);

impl PerCpuMemory for Handles {
    type Object = Handle;
    const OUTLIVED: bool = true;
    const BY_SIZE: bool = true;

    fn new(_memory: &SlotMemory) -> Result<Handles, Failure> {
        Ok(Handles(Before::new()))
    }

    #[inline]
    fn alloc(&self, size: usize, align: usize) -> Handle {
        memory::alloc(size, align).unwrap_or_else(|_| out_of_memory())
    }

    #[inline]
    unsafe fn zero(&self, _object: Handle, _size: usize) {}

    #[inline]
    unsafe fn free(&self, object: Handle, _size: usize) {
        // SAFETY: the caller's contract.
        if unsafe { memory::free(object) }.is_err() {
            refused_free();
        }
    }

    #[inline]
    unsafe fn add(&self, object: Handle) {
        // SAFETY: the caller's contract; only transactions change these bytes.
        unsafe { object.cell::<usize>(0) }.add(1);
    }

    fn tally(&self, _objects: usize) -> Work {
        self.0.tally()
    }
}

const _: () = {
    assert!(size_of::<Numbers<0>>() == 8 && size_of::<Aligned>() == 16);
    assert!(size_of::<Numbers<2>>() == 24 && size_of::<Numbers<3>>() == 32);
};
