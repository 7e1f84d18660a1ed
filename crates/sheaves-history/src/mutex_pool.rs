//! Pools of per-CPU items with a mutex each: per-CPU memory as user space had it.
//!
//! **Source.** The memory pools of librseq, by their description: a pool for each size, with ranges
//! that lie one stride apart for each CPU, and a mutex.
//!
//! **Reproduced.** A pool for each power of two, from 8 bytes on; a request is rounded up to it. A
//! pool has ranges: 64 KiB for each slot, one behind the other, so that a slot's place is one
//! stride further. It hands out fresh items in order and returned ones last in, first out; the
//! links lie in the items themselves, in slot 0. Every allocation and every free takes the pool's
//! mutex, a pthread mutex.
//!
//! In its favour: `free` is told the size, and ranges have no header pages.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::cpu::Padded;
use crate::pthread::Mutex;

/// Distance between the places of an item in two slots.
pub const STRIDE: usize = 64 << 10;
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

/// All pools. An item is its address in slot 0.
#[derive(Debug)]
pub struct MutexPools {
    pools: [Padded<Mutex<Pool>>; POOLS],
    start: usize,
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
    /// Pools on the memory at an exposed address, for that number of slots.
    ///
    /// # Safety
    /// The memory is readable and writable as long as the pools exist, and theirs alone.
    pub unsafe fn new(start: usize, bytes: usize, slots: usize) -> MutexPools {
        MutexPools {
            pools: core::array::from_fn(|_| Padded(Mutex::new(Pool::default()))),
            start,
            slots,
            ranges_max: bytes / (STRIDE * slots),
            ranges: AtomicUsize::new(0),
        }
    }

    /// An item with any content; none if the memory is used up.
    #[inline]
    pub fn alloc(&self, size: usize) -> Option<usize> {
        let index = pool_of(size);
        let mut pool = self.pools[index].0.lock();
        let item = pool.free;
        if item != 0 {
            let link = with_exposed_provenance_mut::<usize>(item);
            // SAFETY: a free item is the pool's own, and the last to free it wrote the link.
            pool.free = unsafe { link.read() };
            return Some(item);
        }
        if pool.fresh == pool.end {
            pool.fresh = self.take_range()?;
            pool.end = pool.fresh + STRIDE;
        }
        let item = pool.fresh;
        pool.fresh += 1 << (index as u32 + ITEM_SHIFT_MIN);
        pool.used_bytes += pool.fresh - item;
        Some(item)
    }

    /// A range; its start in slot 0.
    #[cold]
    fn take_range(&self) -> Option<usize> {
        // Relaxed: only the number counts.
        let index = self.ranges.fetch_add(1, Ordering::Relaxed);
        (index < self.ranges_max).then_some(self.start + index * STRIDE * self.slots)
    }

    /// Takes an item back.
    ///
    /// # Safety
    /// The item came from [`MutexPools::alloc`] with this size, and is not used any more.
    #[inline]
    pub unsafe fn free(&self, item: usize, size: usize) {
        let mut pool = self.pools[pool_of(size)].0.lock();
        let link = with_exposed_provenance_mut::<usize>(item);
        // SAFETY: the item is given up, has 8 bytes at least, and the pool's mutex is held.
        unsafe { link.write(pool.free) };
        pool.free = item;
    }

    /// Pages of one slot that hold items, or have held some.
    pub fn used_pages(&self, page_bytes: usize) -> usize {
        let pages = |pool: &Padded<Mutex<Pool>>| pool.0.lock().used_bytes.div_ceil(page_bytes);
        self.pools.iter().map(pages).sum()
    }
}

#[cfg(test)]
#[path = "../tests/unit/mutex_pool.rs"]
mod tests;
