//! `mutex-pool`: pools of per-CPU items as user space had them before, after the description of
//! librseq's memory pools.
//!
//! A pool for each power of two, from 8 bytes on; a request is rounded up to it. A pool has ranges:
//! 64 KiB for each slot, one behind the other, so that a slot's place is one stride further. It
//! hands out fresh items in order and returned ones last in, first out; the links lie in the items
//! themselves, in slot 0. Every allocation and every free takes the pool's mutex, a pthread mutex.
//!
//! In its favour: `free` is told the size, and ranges have no header pages.

use alloc::sync::Arc;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_percpu::dynamic::PAGE_BYTES;

use super::chunked::add_at;
use super::contenders::{PerCpuMemory, Tally};
use super::pthread::Mutex;
use super::slot_memory::{Mapping, SlotMemory};
use crate::harness::failure::{Failure, out_of_memory};
use sheaves_history::cpu::{Padded, current_cpu};

/// Distance between the places of an item in two slots.
const STRIDE: usize = 64 << 10;
/// Logarithm of the smallest item.
const ITEM_SHIFT_MIN: u32 = 3;
/// One pool for each power of two up to the stride.
const POOLS: usize = (STRIDE.ilog2() - ITEM_SHIFT_MIN) as usize + 1;

/// What a pool's mutex guards; addresses are those in slot 0.
#[derive(Debug, Default)]
struct Pool {
    /// The item that came back last, 0 for none.
    free: usize,
    /// The next fresh item, and the end of its range.
    fresh: usize,
    end: usize,
    /// Bytes of fresh items that were ever handed out.
    used_bytes: usize,
}

/// All pools.
#[derive(Debug)]
pub(crate) struct MutexPools {
    pools: [Padded<Mutex<Pool>>; POOLS],
    memory: Arc<Mapping>,
    slots: usize,
    ranges_max: usize,
    /// Ranges that pools have.
    ranges: AtomicUsize,
}

/// The number of the pool for a size.
#[inline]
fn pool_of(size: usize) -> usize {
    (usize::BITS - (size - 1).leading_zeros()).saturating_sub(ITEM_SHIFT_MIN) as usize
}

impl MutexPools {
    /// Bytes of memory for all slots.
    fn bytes(memory: &SlotMemory) -> usize {
        // The links take memory in slot 0 even where nothing is zeroed.
        memory.row_bytes.next_multiple_of(STRIDE) * memory.slots.max(1)
    }

    /// A range; its start in slot 0.
    #[cold]
    fn take_range(&self) -> usize {
        // Relaxed: only the number counts.
        let index = self.ranges.fetch_add(1, Ordering::Relaxed);
        if index >= self.ranges_max {
            out_of_memory();
        }
        self.memory.start() + index * STRIDE * self.slots
    }

    /// Where an item lies in each slot.
    #[inline]
    fn places(&self, item: usize) -> impl Iterator<Item = usize> {
        (0..self.slots).map(move |slot| item + slot * STRIDE)
    }
}

impl PerCpuMemory for MutexPools {
    type Object = usize;
    const OUTLIVED: bool = false;
    const BY_SIZE: bool = true;

    fn new(memory: &SlotMemory) -> Result<MutexPools, Failure> {
        let (slots, bytes) = (memory.slots.max(1), MutexPools::bytes(memory));
        Ok(MutexPools {
            pools: core::array::from_fn(|_| Padded(Mutex::new(Pool::default()))),
            memory: memory.private(bytes)?,
            slots,
            ranges_max: bytes / (STRIDE * slots),
            ranges: AtomicUsize::new(0),
        })
    }

    #[inline]
    fn alloc(&self, size: usize, _align: usize) -> usize {
        let index = pool_of(size);
        let mut pool = self.pools[index].0.lock();
        let item = pool.free;
        if item != 0 {
            let link = with_exposed_provenance_mut::<usize>(item);
            // SAFETY: a free item is the pool's own, and the last to free it wrote the link.
            pool.free = unsafe { link.read() };
            return item;
        }
        if pool.fresh == pool.end {
            pool.fresh = self.take_range();
            pool.end = pool.fresh + STRIDE;
        }
        let item = pool.fresh;
        pool.fresh += 1 << (index as u32 + ITEM_SHIFT_MIN);
        pool.used_bytes += pool.fresh - item;
        item
    }

    #[inline]
    unsafe fn zero(&self, item: usize, size: usize) {
        for place in self.places(item) {
            let place = with_exposed_provenance_mut::<u8>(place);
            // SAFETY: the item's memory in this slot; no reference to it exists.
            unsafe { place.write_bytes(0, size) };
        }
    }

    #[inline]
    unsafe fn free(&self, item: usize, size: usize) {
        let mut pool = self.pools[pool_of(size)].0.lock();
        let link = with_exposed_provenance_mut::<usize>(item);
        // SAFETY: the item is given up, has 8 bytes at least, and the pool's mutex is held.
        unsafe { link.write(pool.free) };
        pool.free = item;
    }

    #[inline]
    unsafe fn add(&self, item: usize) {
        let slot = current_cpu() % self.slots;
        // SAFETY: the item's first word in this slot, aligned to 8 and accessed by atomics.
        unsafe { add_at(item + slot * STRIDE) };
    }

    fn tally(&self, _objects: usize) -> Tally {
        let pages = |pool: &Padded<Mutex<Pool>>| pool.0.lock().used_bytes.div_ceil(PAGE_BYTES);
        let pages: usize = self.pools.iter().map(pages).sum();
        Tally { chunks: None, unusable_bytes: None, bytes_in_use: (pages * PAGE_BYTES) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_rounded_up_to_powers_of_two() {
        let item_bytes = |size| 8_usize << pool_of(size);
        for size in 1..=STRIDE {
            assert_eq!(item_bytes(size), size.next_power_of_two().max(8), "{size}");
        }
        assert_eq!(pool_of(STRIDE), POOLS - 1);
    }

    #[test]
    fn items_come_back_in_the_reverse_order() {
        let pools = MutexPools::new(&SlotMemory::new(2, STRIDE, 1 << 20)).unwrap();
        let items: Vec<usize> = (0..5000).map(|_| pools.alloc(20, 4)).collect();
        assert_eq!(items[1] - items[0], 32);
        // Slot 1 lies between two ranges of slot 0.
        assert_eq!(items[2048] - items[0], 2 * STRIDE);
        for item in &items {
            // SAFETY: allocated above with this size and freed once.
            unsafe { pools.free(*item, 20) };
        }
        for item in items.iter().rev() {
            assert_eq!(pools.alloc(32, 4), *item);
        }
        assert_eq!(pools.tally(0).bytes_in_use, (5000_u64 * 32).next_multiple_of(4096));
    }
}
