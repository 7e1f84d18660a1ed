//! The allocator's own methods, with every alignment.

use core::alloc::{GlobalAlloc, Layout};
use core::slice;

use crate::HEAP;

const SHIFT_MAX: u32 = 22;
const SIZES: [usize; 10] = [0, 1, 8, 24, 100, 1000, 5000, 33_000, 300_000, 3 << 20];

fn layouts() -> impl Iterator<Item = Layout> {
    let layout = |size: usize, shift: u32| Layout::from_size_align(size, 1_usize << shift).unwrap();
    (0..=SHIFT_MAX).flat_map(move |shift| SIZES.map(|size| layout(size, shift)))
}

fn bytes<'a>(block: *mut u8, size: usize) -> &'a mut [u8] {
    // SAFETY: callers pass a block of that size that only they use, and drop the slice at once.
    unsafe { slice::from_raw_parts_mut(block, size) }
}

#[test]
fn layouts_are_kept() {
    let mut blocks = Vec::new();
    for (mark, layout) in layouts().enumerate() {
        // SAFETY: this allocator accepts a size of 0.
        let block = unsafe { HEAP.alloc(layout) };
        assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()), "{layout:?}");
        bytes(block, layout.size()).fill(mark as u8);
        blocks.push((block, layout, mark as u8));
    }
    for (block, layout, mark) in blocks {
        assert!(bytes(block, layout.size()).iter().all(|byte| *byte == mark), "{layout:?}");
        // SAFETY: from this allocator with this layout.
        unsafe { HEAP.dealloc(block, layout) };
    }
}

#[test]
fn zeroed_memory_is_zero_also_when_it_was_used_before() {
    for layout in layouts() {
        for _ in 0..3 {
            // SAFETY: as above.
            let block = unsafe { HEAP.alloc_zeroed(layout) };
            assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()), "{layout:?}");
            let bytes = bytes(block, layout.size());
            assert!(bytes.iter().all(|byte| *byte == 0), "{layout:?}");
            bytes.fill(0xff);
            // SAFETY: from this allocator with this layout.
            unsafe { HEAP.dealloc(block, layout) };
        }
    }
}

#[test]
fn realloc_keeps_alignment_and_contents() {
    const STEPS: [usize; 12] =
        [2, 17, 100, 2000, 50_000, 1 << 20, 5 << 20, 70_000, 900, 30, 3, 40_000];
    for shift in 0..=SHIFT_MAX {
        let align = 1 << shift;
        let mut layout = Layout::from_size_align(1, align).unwrap();
        // SAFETY: a valid layout.
        let mut block = unsafe { HEAP.alloc(layout) };
        bytes(block, 1).fill(0);
        for (step, size) in STEPS.into_iter().enumerate() {
            // SAFETY: from this allocator with this layout.
            block = unsafe { HEAP.realloc(block, layout, size) };
            assert!(!block.is_null() && block.addr().is_multiple_of(align), "{layout:?}");
            let kept = size.min(layout.size());
            // Each step writes its own pattern, so that an older block does not pass for this one.
            assert!(bytes(block, kept).iter().all(|byte| *byte == step as u8), "{layout:?}");
            bytes(block, size).fill(step as u8 + 1);
            layout = Layout::from_size_align(size, align).unwrap();
        }
        // SAFETY: from this allocator with this layout.
        unsafe { HEAP.dealloc(block, layout) };
    }
}

#[test]
fn impossible_sizes_are_null() {
    let layout = Layout::from_size_align(isize::MAX as usize - 4095, 4096).unwrap();
    // SAFETY: a valid layout.
    assert!(unsafe { HEAP.alloc(layout) }.is_null());
    // SAFETY: a valid layout.
    assert!(unsafe { HEAP.alloc_zeroed(layout) }.is_null());
    for align in [1, 64] {
        let small = Layout::from_size_align(10, align).unwrap();
        // SAFETY: a valid layout.
        let block = unsafe { HEAP.alloc(small) };
        bytes(block, 10).fill(3);
        // SAFETY: from this allocator with this layout; the size does not overflow.
        assert!(unsafe { HEAP.realloc(block, small, isize::MAX as usize - 4095) }.is_null());
        assert!(bytes(block, 10).iter().all(|byte| *byte == 3), "the block was lost");
        // SAFETY: from this allocator with this layout.
        unsafe { HEAP.dealloc(block, small) };
    }
    let mut list: Vec<u64> = Vec::new();
    assert!(list.try_reserve(1 << 58).is_err());
    assert!(list.try_reserve(10).is_ok());
}
