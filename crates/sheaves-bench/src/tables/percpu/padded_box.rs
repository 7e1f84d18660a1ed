//! `padded-box`: what a program does that has no per-CPU memory: for each object a boxed slice with
//! one element for each slot, padded so that two slots share no cache line.

use core::ptr::{slice_from_raw_parts_mut, with_exposed_provenance_mut};

use super::chunked::add_at;
use super::contenders::PerCpuMemory;
use super::slot_memory::SlotMemory;
use super::work::Work;
use crate::harness::Failure;
use sheaves_history::cpu::{Padded, current_cpu};

const OBJECT_BYTES_MAX: usize = 32;

/// One slot's part of an object: as large with smaller ones, because of the padding.
type Element = Padded<[u64; OBJECT_BYTES_MAX / 8]>;

pub(crate) const ELEMENT_BYTES: usize = size_of::<Element>();

/// The contender: the global allocator, which is glibc's.
pub(crate) struct PaddedBox {
    slots: usize,
}

impl PerCpuMemory for PaddedBox {
    type Object = usize;
    const OUTLIVED: bool = true;
    const BY_SIZE: bool = true;

    fn new(memory: &SlotMemory) -> Result<PaddedBox, Failure> {
        Ok(PaddedBox { slots: memory.slots })
    }

    /// Zero from the start, because a box is never without a value.
    #[inline]
    fn alloc(&self, size: usize, _align: usize) -> usize {
        debug_assert!(size <= OBJECT_BYTES_MAX);
        let slice: Box<[Element]> = (0..self.slots).map(|_| Element::default()).collect();
        Box::into_raw(slice).cast::<Element>().expose_provenance()
    }

    #[inline]
    unsafe fn zero(&self, _object: usize, _size: usize) {}

    #[inline]
    unsafe fn free(&self, object: usize, _size: usize) {
        let start = with_exposed_provenance_mut::<Element>(object);
        let slice = slice_from_raw_parts_mut(start, self.slots);
        // SAFETY: `alloc` made a slice of this length into this address, and it is given up.
        drop(unsafe { Box::from_raw(slice) });
    }

    #[inline]
    unsafe fn add(&self, object: usize) {
        let slot = current_cpu() % self.slots;
        // SAFETY: the first word of this slot's element, which is accessed by atomics.
        unsafe { add_at(object + slot * ELEMENT_BYTES) };
    }

    fn tally(&self, objects: usize) -> Work {
        Work::of_bytes((objects * ELEMENT_BYTES) as u64)
    }
}
