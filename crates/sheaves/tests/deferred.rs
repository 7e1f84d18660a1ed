//! Deferred frees of ordinary memory: small blocks, large ones, values with destructors.
//!
//! Repeated in every configuration of the engine, by this program with another environment.

mod configurations;

use core::alloc::Layout;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use sheaves::heap;
use sheaves::rcu::{self, RcuBox, defer};

/// Serializes the tests: a barrier also waits for objects that other tests defer under their
/// guards.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Fills a block with a pattern that depends on its address.
fn mark(block: *mut u8, bytes: usize) {
    // SAFETY: the block has this size, and no other thread knows it.
    unsafe { block.write_bytes(block.addr() as u8 ^ (block.addr() >> 8) as u8 | 1, bytes) };
}

fn is_marked(block: *mut u8, bytes: usize) -> bool {
    let expected = block.addr() as u8 ^ (block.addr() >> 8) as u8 | 1;
    // SAFETY: the block has this size; that it is not reused during a read section is what is
    // tested.
    let content = unsafe { core::slice::from_raw_parts(block, bytes) };
    content.iter().all(|byte| *byte == expected)
}

#[test]
fn blocks_of_every_kind_outlive_their_readers() {
    let _alone = alone();
    let sizes = [1, 16, 100, 1000, 5000, 32 << 10, 200 << 10, 3 << 20];
    for &bytes in &sizes[..if cfg!(miri) { 4 } else { sizes.len() }] {
        let count = if bytes > 10_000 || cfg!(miri) { 20 } else { 1000 };
        let blocks: Vec<_> = (0..count).map(|_| heap::malloc(bytes)).collect();
        blocks.iter().for_each(|block| mark(*block, bytes));
        let guard = rcu::read();
        for block in &blocks {
            // SAFETY: from this heap; only read from now on.
            unsafe { heap::free_rcu(*block) };
        }
        let distinct: HashSet<_> = blocks.iter().copied().collect();
        let others: Vec<_> = (0..count).map(|_| heap::malloc(bytes)).collect();
        for other in &others {
            assert!(!distinct.contains(other));
            mark(*other, bytes);
        }
        assert!(blocks.iter().all(|block| is_marked(*block, bytes)), "{bytes} bytes");
        drop(guard);
        defer::barrier().unwrap();
        for other in others {
            // SAFETY: from this heap, not used after.
            unsafe { heap::free(other) };
        }
    }
    // SAFETY: null is ignored.
    unsafe { heap::free_rcu(core::ptr::null_mut()) };
}

#[test]
fn barrier_leaves_nothing_deferred() {
    let _alone = alone();
    defer::barrier().unwrap();
    let before = heap_objects_out();
    let blocks: Vec<_> = (0..if cfg!(miri) { 500 } else { 50_000 })
        .map(|index| heap::malloc(index % 2000))
        .collect();
    for block in &blocks {
        // SAFETY: from this heap, not used after.
        unsafe { heap::free_rcu(*block) };
    }
    defer::barrier().unwrap();
    let (out, deferred) = (heap_objects_out(), heap_objects_deferred());
    assert_eq!(deferred, 0);
    // The test's own vector, and what the harness has allocated meanwhile, is not from this heap.
    assert_eq!(out, before);
}

fn heap_objects_out() -> usize {
    sheaves_slab::stats::all().map(|(_, stats)| stats.objects_out).sum()
}

fn heap_objects_deferred() -> usize {
    sheaves_slab::stats::all().map(|(_, stats)| stats.objects_deferred).sum()
}

#[test]
fn layouts_of_every_alignment_are_deferred() {
    let _alone = alone();
    for align in [1, 8, 64, 4096, 1 << 16, 1 << 21] {
        let layout = Layout::from_size_align(100, align).unwrap();
        for _ in 0..if cfg!(miri) { 5 } else { 300 } {
            let block = heap::alloc_layout(layout);
            assert!(!block.is_null() && block.addr().is_multiple_of(align));
            // SAFETY: from there with this layout, not used after.
            unsafe { heap::free_rcu_layout(block, layout) };
        }
    }
    defer::barrier().unwrap();
    assert_eq!(heap_objects_deferred(), 0);
}

struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // Relaxed: the barrier orders.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn boxed_values_are_dropped_once_and_not_under_a_reader() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    let _alone = alone();
    let count = if cfg!(miri) { 200 } else { 5000 };
    let boxes: Vec<_> = (0..count).map(|_| RcuBox::new((Counted(&DROPPED), 7_u64))).collect();
    let pointers: Vec<*mut _> = boxes.into_iter().map(RcuBox::into_raw).collect();
    let guard = rcu::read();
    for pointer in &pointers {
        // SAFETY: from `into_raw`, once.
        drop(unsafe { RcuBox::from_raw(*pointer) });
    }
    rcu::Cookie::get().start_expedited();
    for pointer in &pointers {
        // SAFETY: under the guard the value is still there.
        assert_eq!(unsafe { &**pointer }.1, 7);
    }
    // Relaxed, both: the barrier orders.
    assert_eq!(DROPPED.load(Ordering::Relaxed), 0);
    drop(guard);
    defer::barrier().unwrap();
    assert_eq!(DROPPED.load(Ordering::Relaxed), pointers.len());
}

#[test]
fn boxes_of_values_without_destructor_take_no_more_than_these() {
    let _alone = alone();
    let plain = RcuBox::new([7_u64; 8]).into_raw();
    let with_drop = RcuBox::new((Box::new(1), [7_u64; 7])).into_raw();
    // SAFETY: a block of 64 bytes starts there.
    assert_eq!(unsafe { heap::usable_size(plain.cast()) }, 64);
    assert!(with_drop.addr() % 16 == 0);
    // SAFETY: both from `into_raw`, once.
    drop(unsafe { RcuBox::from_raw(plain) });
    // SAFETY: as above.
    drop(unsafe { RcuBox::from_raw(with_drop) });
    let aligned = RcuBox::new(Aligned(Vec::from([1, 2, 3])));
    assert!(core::ptr::from_ref(&*aligned).addr().is_multiple_of(256));
    assert_eq!(aligned.0, [1, 2, 3]);
    drop(aligned);
    defer::barrier().unwrap();
}

#[repr(align(256))]
struct Aligned(Vec<u8>);

#[test]
fn in_every_configuration() {
    configurations::run_all();
}
