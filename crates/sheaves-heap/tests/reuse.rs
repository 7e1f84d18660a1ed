//! Freed memory serves the next block, without system calls or page faults.

use sheaves_heap::{aligned_alloc, calloc, free, malloc, realloc, trim, usable_size};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

/// Minor page faults of this thread so far.
fn faults() -> i64 {
    let mut usage = core::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: there is room for the answer.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) }, 0);
    // SAFETY: filled by the call, which has succeeded.
    unsafe { usage.assume_init() }.ru_minflt
}

/// Writes a number that depends on the place into each page.
fn fill(block: *mut u8, bytes: usize) {
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: inside the block.
        unsafe { block.wrapping_add(offset).write((offset / PAGE % 251) as u8 + 1) };
    }
}

fn is_filled(block: *mut u8, bytes: usize) -> bool {
    (0..bytes).step_by(PAGE).all(|offset| {
        // SAFETY: inside the block.
        unsafe { block.wrapping_add(offset).read() == (offset / PAGE % 251) as u8 + 1 }
    })
}

fn resized(block: *mut u8, bytes: usize) -> *mut u8 {
    // SAFETY: from this heap; the old address is not used any more.
    let block = unsafe { realloc(block, bytes) };
    assert!(!block.is_null());
    // SAFETY: from this heap.
    assert!(unsafe { usable_size(block) } >= bytes);
    block
}

fn release(block: *mut u8) {
    // SAFETY: from this heap, and not used any more.
    unsafe { free(block) };
}

/// One test, since others would use the same memory.
#[test]
fn large_blocks_are_used_again() {
    // A block for each request, as database servers do.
    let request = || {
        let block = malloc(2 * MIB);
        fill(block, 2 * MIB);
        release(block);
        block
    };
    let (first, before) = (request(), faults());
    assert!((0..100).all(|_| request() == first));
    assert!(faults() - before < 100, "{} page faults", faults() - before);

    // Zeros, although the range has contents.
    let block = calloc(2, MIB);
    assert_eq!(block, first);
    // SAFETY: 2 MiB that `calloc` has returned.
    let content = unsafe { core::slice::from_raw_parts(block, 2 * MIB) };
    assert!(content.iter().all(|byte| *byte == 0));
    release(block);

    // Growing by doubling, and shrinking by halves: the contents stay.
    let mut block = malloc(2 * MIB);
    fill(block, 2 * MIB);
    for doubling in 1..=4 {
        block = resized(block, (2 * MIB) << doubling);
        assert!(is_filled(block, MIB << doubling));
        fill(block, (2 * MIB) << doubling);
    }
    for halving in 1..=4 {
        block = resized(block, (32 * MIB) >> halving);
        assert!(is_filled(block, (32 * MIB) >> halving));
    }
    // It grows again into what it has given up.
    let before = faults();
    let grown = resized(block, 30 * MIB);
    fill(grown, 30 * MIB);
    assert_eq!(grown, block);
    assert!(faults() - before < 100, "{} page faults", faults() - before);
    release(grown);
    trim(0);
    assert_eq!(sheaves_heap::report::totals().dirty_bytes, 0);
}

/// Blocks alone in their slabs, of which one is for no bytes, as its alignment wants.
#[test]
fn what_was_written_never_counts_as_new() {
    const ALONE: usize = 64 << 10;
    for bytes in (0..100).map(|round| ALONE * (1 + round % 4)) {
        let written = malloc(bytes);
        fill(written, bytes);
        release(written);
        release(aligned_alloc(ALONE, 0));
        let zeroed = calloc(1, bytes);
        // SAFETY: as many bytes as `calloc` was to return.
        let content = unsafe { core::slice::from_raw_parts(zeroed, bytes) };
        assert!(content.iter().all(|byte| *byte == 0), "{bytes} bytes");
        release(zeroed);
    }
}
