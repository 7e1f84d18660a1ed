//! Invalid sizes and alignments, and size zero.

use core::alloc::Layout;
use core::ptr::null_mut;
use std::collections::HashSet;

use sheaves_heap::{
    aligned_alloc, alloc_layout, calloc, dealloc_layout, free, free_rcu_layout, malloc, realloc,
    usable_size,
};
use sheaves_sys::errno;

use crate::End::{Dies, GoesOn};

const NONE: [(&str, &str); 0] = [];
const DEBUG: [(&str, &str); 1] = [("SHEAVES_DEBUG", "1")];
const HARDENED: [(&str, &str); 1] = [("SHEAVES_HARDEN", "1")];
const PORTABLE: [(&str, &str); 1] = [("SHEAVES_ENGINE", "portable")];

/// The call must return null and set this `errno`.
fn refuses(code: i32, call: impl FnOnce() -> *mut u8) {
    errno::set(0);
    assert_eq!(call(), null_mut());
    assert_eq!(errno::get(), code);
}

fn overflows() {
    const ISIZE_MAX: usize = isize::MAX as usize;
    for size in [usize::MAX, usize::MAX - 15, ISIZE_MAX + 1, ISIZE_MAX, 1 << 48] {
        refuses(errno::ENOMEM, || malloc(size));
        refuses(errno::ENOMEM, || calloc(1, size));
        refuses(errno::ENOMEM, || calloc(size, 1));
        refuses(errno::ENOMEM, || aligned_alloc(4096, size));
        let block = malloc(24);
        // SAFETY: the block has 24 bytes.
        unsafe { block.write_bytes(7, 24) };
        // SAFETY: from this heap.
        refuses(errno::ENOMEM, || unsafe { realloc(block, size) });
        // SAFETY: it failed, so the block is still there.
        assert!(unsafe { core::slice::from_raw_parts(block, 24) }.iter().all(|byte| *byte == 7));
        // SAFETY: from this heap.
        unsafe { free(block) };
    }
    refuses(errno::ENOMEM, || calloc(usize::MAX, 2));
    refuses(errno::ENOMEM, || calloc(1 << 32, 1 << 32));
    // The product overflows to a small number.
    refuses(errno::ENOMEM, || calloc((1 << 63) + 1, 2));
}

fn alignments() {
    for align in [0, 3, 24, usize::MAX] {
        refuses(errno::EINVAL, || aligned_alloc(align, 100));
    }
    for shift in 48..usize::BITS {
        refuses(errno::ENOMEM, || aligned_alloc(1 << shift, 1));
        refuses(errno::ENOMEM, || aligned_alloc(1 << shift, 1 << 40));
    }
    for shift in 0..=30 {
        for size in [0, 1, 100, 40_000, 2 << 20] {
            let block = aligned_alloc(1 << shift, size);
            assert!(!block.is_null() && block.addr().is_multiple_of(1 << shift));
            // SAFETY: from this heap.
            assert!(unsafe { usable_size(block) } >= size);
            // SAFETY: from this heap.
            unsafe { free(block) };
        }
    }
}

fn zeros() {
    let blocks: Vec<_> = (0..300)
        .map(|index| match index % 3 {
            0 => malloc(0),
            1 => calloc(index, 0),
            _ => aligned_alloc(64, 0),
        })
        .collect();
    assert_eq!(blocks.iter().collect::<HashSet<_>>().len(), blocks.len());
    for block in blocks {
        assert!(!block.is_null());
        // SAFETY: from this heap; it may be used again after.
        let block = unsafe { realloc(block, 0) };
        assert!(!block.is_null());
        // SAFETY: from this heap.
        unsafe { free(block) };
    }
    for align in [1, 16, 4096, 1 << 20] {
        let layout = Layout::from_size_align(0, align).unwrap();
        let block = alloc_layout(layout);
        assert!(block.addr().is_multiple_of(align) && !block.is_null());
        // SAFETY: from this heap with this layout.
        unsafe { dealloc_layout(block, layout) };
    }
    // SAFETY: null is ignored.
    unsafe { free(null_mut()) };
    // SAFETY: null is ignored.
    assert_eq!(unsafe { usable_size(null_mut()) }, 0);
    // SAFETY: null is ignored.
    let block = unsafe { realloc(null_mut(), 10) };
    // SAFETY: from this heap.
    unsafe { free(block) };
}

/// `free` keeps `errno`, on every path.
fn errno_is_kept() {
    for size in [1, 1000, 40_000, 3 << 20] {
        let blocks: Vec<_> = (0..300).map(|_| malloc(size)).collect();
        for block in blocks {
            errno::set(77);
            // SAFETY: from this heap.
            unsafe { free(block) };
            assert_eq!(errno::get(), 77);
        }
    }
}

/// The very first call of the process is for a block of this size.
fn begins_with_calloc(size: usize) {
    let block = calloc(size / 8, 8);
    // SAFETY: the block has `size` bytes, all initialised.
    let bytes = unsafe { core::slice::from_raw_parts(block, size) };
    assert!(bytes.iter().all(|byte| *byte == 0));
    // SAFETY: from this heap.
    assert!(unsafe { usable_size(block) } >= size);
    // SAFETY: from this heap.
    unsafe { free(block) };
}

/// Frees a block with another layout than its own.
fn free_with(size: usize, other_size: usize, other_align: usize) {
    let layout = Layout::from_size_align(size, 8).unwrap();
    // In random order a block may have a larger alignment by chance, and then that is no error.
    let has_other = |block: &*mut u8| other_align > 16 && block.addr().is_multiple_of(other_align);
    let mut blocks = core::iter::repeat_with(|| alloc_layout(layout)).skip_while(has_other);
    let block = blocks.next().unwrap();
    let other = Layout::from_size_align(other_size, other_align).unwrap();
    // SAFETY: bad input on purpose; the block is not used any more.
    unsafe { dealloc_layout(block, other) };
}

/// Blocks that were resized, in place or not, are freed with the sizes that they have then.
fn layouts_of_resized_blocks() {
    for old in [1, 15, 16, 100, 129, 257, 4000, 33_000, 65_521, 70_000, 1 << 20, 3 << 20] {
        let sizes = (1..old.min(300)).chain((1..24).flat_map(|part| [old * part / 8, old + part]));
        for size in sizes.filter(|size| *size != 0) {
            let block = alloc_layout(Layout::from_size_align(old, 16).unwrap());
            // SAFETY: from this heap.
            let block = unsafe { realloc(block, size) };
            // SAFETY: from this heap; it has this size now.
            unsafe { dealloc_layout(block, Layout::from_size_align(size, 16).unwrap()) };
        }
    }
}

crate::cases! {
    layout_with_a_smaller_size HARDENED, Dies("allocated with another size") => {
        free_with(100, 10, 8);
    }
    layout_with_a_larger_size HARDENED, Dies("allocated with another size") => {
        free_with(100, 300, 8);
    }
    layout_of_a_larger_block HARDENED, Dies("allocated with another size") => {
        free_with(100_000, 3 << 20, 8);
    }
    layout_with_a_larger_alignment HARDENED, Dies("with alignment 4096") => {
        free_with(100, 100, 4096);
    }
    layout_with_another_size_debug DEBUG, Dies("allocated with another size") => {
        free_with(100, 99, 8);
    }
    layout_of_another_deferred_block HARDENED, Dies("allocated with another size") => {
        let block = alloc_layout(Layout::new::<[u64; 8]>());
        // SAFETY: bad input on purpose; the block is not used any more.
        unsafe { free_rcu_layout(block, Layout::new::<[u64; 64]>()) };
    }
    resized_layouts_hardened HARDENED, GoesOn(&[]) => { layouts_of_resized_blocks(); }
    resized_layouts_debug DEBUG, GoesOn(&[]) => { layouts_of_resized_blocks(); }
    size_overflow NONE, GoesOn(&[]) => { overflows(); }
    size_overflow_debug DEBUG, GoesOn(&[]) => { overflows(); }
    absurd_alignment NONE, GoesOn(&[]) => { alignments(); }
    absurd_alignment_debug DEBUG, GoesOn(&[]) => { alignments(); }
    zero_size NONE, GoesOn(&[]) => { zeros(); }
    zero_size_debug DEBUG, GoesOn(&[]) => { zeros(); }
    zero_size_portable PORTABLE, GoesOn(&[]) => { zeros(); }
    free_keeps_errno NONE, GoesOn(&[]) => { errno_is_kept(); }
    free_keeps_errno_portable PORTABLE, GoesOn(&[]) => { errno_is_kept(); }
    free_keeps_errno_debug DEBUG, GoesOn(&[]) => { errno_is_kept(); }
    first_call_middle NONE, GoesOn(&[]) => { begins_with_calloc(100_000); }
    first_call_middle_debug DEBUG, GoesOn(&[]) => { begins_with_calloc(100_000); }
    first_call_large NONE, GoesOn(&[]) => { begins_with_calloc(3 << 20); }
    first_call_large_debug DEBUG, GoesOn(&[]) => { begins_with_calloc(3 << 20); }
}
