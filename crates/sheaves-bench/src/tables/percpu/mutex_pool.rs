//! `mutex-pool`: pools with a mutex each, see [`sheaves_history::mutex_pool`].

use alloc::sync::Arc;
use core::ptr::with_exposed_provenance_mut;

use sheaves_history::cpu::current_cpu;
use sheaves_history::mutex_pool::{self, STRIDE};
use sheaves_percpu::internal::dynamic::PAGE_BYTES;

use super::chunked::add_at;
use super::contenders::PerCpuMemory;
use super::slot_memory::{Mapping, SlotMemory};
use super::work::Work;
use crate::harness::{Failure, out_of_memory};

pub(crate) struct MutexPools {
    pools: mutex_pool::MutexPools,
    slots: usize,
    _memory: Arc<Mapping>,
}

impl PerCpuMemory for MutexPools {
    type Object = usize;
    const OUTLIVED: bool = false;
    const BY_SIZE: bool = true;

    fn new(memory: &SlotMemory) -> Result<MutexPools, Failure> {
        // The links take memory in slot 0 even where nothing is zeroed.
        let slots = memory.slots.max(1);
        let bytes = memory.row_bytes.next_multiple_of(STRIDE) * slots;
        let memory = SlotMemory::private(bytes)?;
        // SAFETY: the mapping is private, and is kept beside the pools.
        let pools = unsafe { mutex_pool::MutexPools::new(memory.start(), bytes, slots) };
        Ok(MutexPools { pools, slots, _memory: memory })
    }

    #[inline]
    fn alloc(&self, size: usize, _align: usize) -> usize {
        self.pools.alloc(size).unwrap_or_else(|| out_of_memory())
    }

    #[inline]
    unsafe fn zero(&self, item: usize, size: usize) {
        for slot in 0..self.slots {
            let place = with_exposed_provenance_mut::<u8>(item + slot * STRIDE);
            // SAFETY: the item's memory in this slot; no reference to it exists.
            unsafe { place.write_bytes(0, size) };
        }
    }

    #[inline]
    unsafe fn free(&self, item: usize, size: usize) {
        // SAFETY: the same contract.
        unsafe { self.pools.free(item, size) };
    }

    #[inline]
    unsafe fn add(&self, item: usize) {
        let slot = current_cpu() % self.slots;
        // SAFETY: the item's first word in this slot, aligned to 8 and accessed by atomics.
        unsafe { add_at(item + slot * STRIDE) };
    }

    fn tally(&self, _objects: usize) -> Work {
        Work::of_bytes((self.pools.used_pages(PAGE_BYTES) * PAGE_BYTES) as u64)
    }
}
