//! Tests of `src/tables/worst/heap.rs`.

use crate::contenders::allocators::glibc::Glibc;
use crate::contenders::allocators::library::Malloc;
use crate::contenders::allocators::{Allocator, Workload};
use crate::tables::worst::heap::{Call, Course, Heap};
use crate::tables::worst::times::MEASURES;

fn course(bytes: usize, times: usize) -> Course {
    Course { bytes, replaced: times, cleared: times, resized: times, calls: &Call::ALL }
}

#[test]
fn all_calls_are_timed_and_the_longest_is_the_longest() {
    let check = |mut sampler: crate::harness::Sampler| {
        for _ in 0..2 {
            let values = sampler.sample().unwrap();
            assert_eq!(values.len(), MEASURES.len() * Call::ALL.len());
            for figures in values.chunks(MEASURES.len()) {
                let [longest, p9999, p99, p50] = figures else { unreachable!() };
                assert!(longest >= p99 && p99 >= p50 && *p50 > 0.0, "{values:?}");
                // There are less than 10,000 calls.
                assert!(p9999.is_nan(), "{values:?}");
            }
        }
    };
    check(course(4 << 20, 1000).sampler(Glibc).unwrap());
    check(course(4 << 20, 1000).sampler(Malloc).unwrap());
}

#[test]
fn the_heap_is_thinned_at_random() {
    let mut heap = Heap::new(&Glibc, 1 << 20, 1);
    let count = heap.blocks.len();
    assert_eq!(count, (1 << 20) / 1250);
    // Filling it is not timed.
    assert_eq!(heap.times(Call::Malloc).count(), 0);
    heap.run(course(1 << 20, 10));
    assert_eq!(heap.blocks.len(), count / 16);
    // Half, then those above a sixteenth of what is left with the eighth, then those replaced.
    let freed = (count - count / 2) + (count / 2 + count / 8 - count / 16) + 20;
    assert_eq!(heap.times(Call::Free).count(), freed as u64);
    assert_eq!(heap.times(Call::Malloc).count(), (count / 8 + 10) as u64);
    assert_eq!([Call::Calloc, Call::Realloc].map(|call| heap.times(call).count()), [10, 10]);
    assert_eq!(heap.times(Call::Statistics).count(), 100);
}

#[test]
fn zeroed_blocks_are_zero() {
    let check = |allocator: &dyn Fn(usize) -> *mut u8| {
        let block = allocator(1000);
        // SAFETY: the block has this many bytes, all of which are zeroed.
        let bytes = unsafe { core::slice::from_raw_parts(block, 1000) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        block
    };
    let block = check(&|size| Glibc.calloc(size));
    // SAFETY: allocated above and freed once.
    unsafe { Glibc.free(block, 1000) };
    let block = check(&|size| Malloc.calloc(size));
    // SAFETY: likewise.
    unsafe { Malloc.free(block, 1000) };
}
