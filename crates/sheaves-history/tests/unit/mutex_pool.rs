//! Tests of `src/mutex_pool.rs`.

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
    let mut memory = vec![0_u64; 4 * STRIDE * 2 / 8];
    let start = memory.as_mut_ptr().expose_provenance();
    // SAFETY: the memory outlives the pools and nothing else uses it.
    let pools = unsafe { MutexPools::new(start, 4 * STRIDE * 2, 2) };
    let items: Vec<usize> = (0..5000).map(|_| pools.alloc(20).unwrap()).collect();
    assert_eq!(items[1] - items[0], 32);
    // Slot 1 lies between two ranges of slot 0.
    assert_eq!(items[2048] - items[0], 2 * STRIDE);
    for item in &items {
        // SAFETY: allocated above with this size and freed once.
        unsafe { pools.free(*item, 20) };
    }
    for item in items.iter().rev() {
        assert_eq!(pools.alloc(32), Some(*item));
    }
    assert_eq!(pools.used_pages(4096), (5000 * 32_usize).div_ceil(4096));
    // The first pool has three ranges; a fifth is too many.
    assert_eq!((pools.alloc(8).is_some(), pools.alloc(64)), (true, None));
}
