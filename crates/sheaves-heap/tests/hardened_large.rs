//! Blocks of a hardened process between inaccessible pages, at level 1 and at level 2. Findings are
//! counted in place of ending the process.

use core::ptr::with_exposed_provenance;
use core::sync::atomic::Ordering;

use sheaves_heap::{aligned_alloc, check_freed, free, malloc, realloc, trim, usable_size};
use sheaves_slab::internal::{FINDINGS, checking};
use sheaves_sys::{map, options};

#[path = "../../sheaves-percpu/tests/transactions/own_process.rs"]
mod own_process;
#[path = "../../sheaves-percpu/tests/transactions/seccomp.rs"]
mod seccomp;

const MIB: usize = 1 << 20;

/// The errors that were found since the last time.
fn findings() -> usize {
    FINDINGS.swap(1, Ordering::Relaxed) - 1
}

/// True where the kernel can read a byte.
fn is_readable(address: usize) -> bool {
    let mut pipe = [0; 2];
    // SAFETY: two descriptors are written.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the kernel checks the address.
    let written = unsafe { libc::write(pipe[1], with_exposed_provenance(address), 1) };
    for descriptor in pipe {
        // SAFETY: opened here.
        unsafe { libc::close(descriptor) };
    }
    written == 1
}

/// Blocks of this size lie between inaccessible pages.
fn large_bytes_min() -> usize {
    if checking::is_exact() { 64 << 10 } else { 256 << 10 }
}

/// Of at least this size a block that is freed is inaccessible. At level 1 smaller ones wait where
/// they are.
fn leaving_bytes_min() -> usize {
    if checking::is_exact() { large_bytes_min() } else { 2 * MIB + 1 }
}

/// A large block that grows has its contents, and its old addresses are inaccessible.
fn large_blocks_grow() {
    let page = map::page_bytes();
    let mut size = large_bytes_min();
    let mut block = malloc(size);
    let place = |block: *mut u8, step: u8| block.wrapping_add(usize::from(step) * 5000);
    for step in 0..200 {
        // SAFETY: the block is larger.
        unsafe { place(block, step).write(step + 1) };
        let before = block.expose_provenance();
        size += 5000;
        // SAFETY: from this heap; the old address is used as a number only.
        block = unsafe { realloc(block, size) };
        let after = block.expose_provenance();
        // SAFETY: from this heap.
        let end = after + unsafe { usable_size(block) };
        assert!(end.is_multiple_of(page) && end >= after + size && end < after + size + page);
        assert!(is_readable(end - 1) && !is_readable(end));
        assert!(is_readable(after / page * page) && !is_readable(after / page * page - 1));
        assert!(after == before || !is_readable(before));
    }
    for step in 0..200 {
        // SAFETY: as above.
        assert_eq!(unsafe { place(block, step).read() }, step + 1);
    }
    // SAFETY: from this heap.
    unsafe { free(block) };
}

/// A large block ends where its last page does, as far as its alignment permits.
fn large_blocks_end_at_pages() {
    for size in (0..40).map(|step| large_bytes_min() + step * 1111) {
        for align in [16, 64, 4096, 1 << 20] {
            let block = aligned_alloc(align, size);
            assert!(block.addr().is_multiple_of(align));
            // SAFETY: the block has that size.
            unsafe { block.write_bytes(0xa5, size) };
            // SAFETY: from this heap.
            let usable = unsafe { usable_size(block) };
            assert!((size..size + align.min(4096)).contains(&usable), "{size} {align} {usable}");
            assert!(!is_readable(block.expose_provenance() + usable));
            // SAFETY: from this heap.
            unsafe { free(block) };
            assert_eq!(is_readable(block.addr()), size < leaving_bytes_min());
        }
    }
}

/// Page faults of this process.
fn page_faults() -> i64 {
    // SAFETY: zeros are a value of it, and the call fills it.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) }, 0);
    usage.ru_minflt
}

/// The pages of large blocks that were freed serve others: cleared, elsewhere, between inaccessible
/// pages, and without page faults.
fn large_blocks_use_pages_again() {
    const ROUNDS: usize = 100;
    let page = map::page_bytes();
    let sizes = [8 * MIB, 5 * MIB, leaving_bytes_min(), leaving_bytes_min() + 300_000];
    let mut freed = Vec::new();
    trim(0);
    let mut before = 0;
    for round in 0..ROUNDS {
        // In the first rounds the pages are new.
        if round == 4 {
            before = page_faults();
        }
        for size in sizes {
            let block = malloc(size);
            // SAFETY: from this heap.
            let usable = unsafe { usable_size(block) };
            let (start, end) = (block.addr() / page * page, block.addr() + usable);
            assert!(end.is_multiple_of(page) && !is_readable(end) && !is_readable(start - 1));
            let is_late = freed.iter().rev().take(255).all(|before| *before != block.addr());
            assert!(is_late, "an address that was freed, {} frees before", freed.len());
            // SAFETY: the block has that size, and new blocks of a hardened process are zeros.
            let bytes = unsafe { core::slice::from_raw_parts_mut(block, size) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(0xa5);
            // SAFETY: from this heap.
            unsafe { free(block) };
            assert!(!is_readable(block.addr()));
            freed.push(block.addr());
        }
    }
    let faults = page_faults() - before;
    assert!(faults < 500, "{faults} page faults for {ROUNDS} times 14 MiB");
}

/// At level 1: blocks are cleared and stay where they are. Their addresses serve again once the
/// pages in use of what was freed since are 4 MiB, or 32 blocks, theirs among them.
fn freed_blocks_wait() {
    for (size, used, others) in [(2 * MIB, 2 * MIB, 1), (MIB, MIB, 3), (300_000, 1, 31)] {
        trim(0);
        let mut freed = Vec::new();
        for round in 0..200 {
            let block = malloc(size);
            let place = freed.iter().rev().position(|before| *before == block);
            assert!(place.is_none_or(|between| between >= others), "{size}, {place:?}");
            assert_eq!(place.is_some(), round > others, "{size}: round {round}");
            // SAFETY: the block has that size, and reads as zeros.
            let bytes = unsafe { core::slice::from_raw_parts_mut(block, size) };
            assert!(bytes[..used].iter().all(|byte| *byte == 0) && bytes[size - 1] == 0);
            bytes[..used].fill(0xa5);
            // SAFETY: from this heap.
            unsafe { free(block) };
            // SAFETY: it waits; that it is read is what is tested.
            assert_eq!(unsafe { block.read_volatile() }, 0);
            freed.push(block);
        }
    }
    assert_eq!(findings(), 0);
}

/// At level 1: what was written to a block that waits is found before its address serves again, and
/// when the process ends.
fn writes_to_freed_blocks_are_found() {
    let spoilt = |place: usize, bytes: usize| {
        let block = malloc(MIB);
        // SAFETY: the block has that size.
        unsafe { block.write_bytes(0xa5, MIB) };
        // SAFETY: from this heap.
        unsafe { free(block) };
        // SAFETY: it waits; the write is on purpose.
        unsafe { block.wrapping_add(place).write_bytes(1, bytes) };
    };
    let serve_all = || {
        for _ in 0..100 {
            // SAFETY: from this heap.
            unsafe { free(malloc(MIB)) };
        }
        findings()
    };
    trim(0);
    spoilt(4000, 1);
    assert_eq!(serve_all(), 1, "in the first page");
    spoilt(70_000, 4096 + 64);
    assert_ne!(serve_all(), 0, "of a page");
    spoilt(70_000, 1);
    check_freed();
    assert_eq!(findings(), 1, "when the process ends");
    trim(0);
    spoilt(0, 1);
    trim(0);
    assert_ne!(findings(), 0, "when it goes back to the kernel");
}

/// Where the process has too many blocks, further ones have no inaccessible page. None of those
/// serves a block that has to have one.
fn each_block_has_its_pages_after_too_many() {
    let mut blocks: Vec<_> =
        (0..map::MAPPINGS_MAX / 16 + 8).map(|_| malloc(large_bytes_min() + 1)).collect();
    let end = |block: &*mut u8| {
        // SAFETY: from this heap.
        block.expose_provenance() + unsafe { usable_size(*block) }
    };
    assert!(is_readable(end(blocks.last().unwrap())), "as many as have pages beside them");
    // SAFETY: from this heap.
    let give = |block: *mut u8| unsafe { free(block) };
    blocks.drain(blocks.len() - 60..).rev().for_each(give);
    for block in blocks.drain(..).rev() {
        give(block);
        let block = malloc(large_bytes_min() + 1);
        assert!(!is_readable(end(&block)));
    }
}

/// More memory than the kernel gives is refused. By default it gives as much as the machine has.
fn large_blocks_are_memory() {
    for size in (32..46).map(|shift| 1 << shift) {
        let is_given = sheaves_sys::map::anywhere(size).is_some_and(|address| {
            // SAFETY: mapped just now.
            unsafe { sheaves_sys::map::unmap(address, size) }
        });
        let small = malloc(1 << 30);
        // SAFETY: from this heap; not used if the other one is there.
        let grown = unsafe { realloc(small, size) };
        let others = [malloc(size), grown];
        assert_eq!(others.map(|block| !block.is_null()), [is_given; 2], "{size}");
        for block in others.into_iter().chain((!is_given).then_some(small)) {
            // SAFETY: null, or from this heap.
            unsafe { free(block) };
        }
    }
}

/// A range whose ends are inaccessible stays as it is where the kernel unmaps and discards nothing.
fn what_the_kernel_keeps_is_not_written_to() {
    let filter = seccomp::program(&[libc::SYS_munmap, libc::SYS_madvise], libc::ENOMEM);
    // SAFETY: from this heap.
    unsafe { free(malloc(large_bytes_min())) };
    // SAFETY: the child uses this heap alone, and ends below.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let _is_permitted = seccomp::install(&filter).is_ok();
        trim(0);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: waits for the child that was just created.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

/// The level of the test; 1 where there is no such variable.
const LEVEL: &str = "SHEAVES_TEST_LEVEL";

#[test]
fn large_blocks() {
    let level = std::env::var(LEVEL).map_or(1, |level| level.parse().unwrap());
    options::HARDEN.set(level);
    // An hour: what is kept does not depend on how long the test takes.
    options::DECAY_MS.set(3_600_000);
    // SAFETY: from this heap.
    unsafe { free(malloc(1)) };
    FINDINGS.store(1, Ordering::Relaxed);
    what_the_kernel_keeps_is_not_written_to();
    large_blocks_grow();
    large_blocks_end_at_pages();
    large_blocks_use_pages_again();
    large_blocks_are_memory();
    if !checking::is_exact() {
        freed_blocks_wait();
        writes_to_freed_blocks_are_found();
    }
    each_block_has_its_pages_after_too_many();
    assert_eq!(findings(), 0);
}

#[test]
fn large_blocks_at_level_2() {
    own_process::pass("large_blocks", &[(LEVEL, "2")]);
}
