//! Address space is exhausted: null and `ENOMEM`, nothing is lost, and later calls succeed again.

use core::ptr::null_mut;

use sheaves_heap::{free, malloc, realloc, report, trim};
use sheaves_sys::errno;

use crate::End::GoesOn;

const NONE: [(&str, &str); 0] = [];
const DEBUG: [(&str, &str); 1] = [("SHEAVES_DEBUG", "1")];
const PORTABLE: [(&str, &str); 2] = [("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "3")];

/// Room for the addresses of all blocks, made before memory is short.
const BLOCKS_MAX: usize = 3_000_000;

/// Sets the soft limit on the address space.
fn limit_to(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure is valid for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

/// Address space in use, from `/proc/self/statm`.
fn mapped_bytes() -> libc::rlim_t {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: libc::rlim_t = text.split(' ').next().unwrap().parse().unwrap();
    pages * sheaves_sys::map::page_bytes() as libc::rlim_t
}

/// Allocates until memory is out, and writes to every block.
fn fill(blocks: &mut Vec<*mut u8>, size: usize) -> usize {
    let before = blocks.len();
    loop {
        errno::set(0);
        let block = malloc(size);
        if block.is_null() {
            assert_eq!(errno::get(), errno::ENOMEM);
            return blocks.len() - before;
        }
        assert!(blocks.len() < BLOCKS_MAX, "the limit has no effect");
        // SAFETY: the block has `size` bytes.
        unsafe { block.write_bytes(blocks.len() as u8, 16.min(size)) };
        blocks.push(block);
    }
}

/// Frees every block from index `from` on, after checking its contents.
fn empty(blocks: &mut Vec<*mut u8>, from: usize) {
    for (index, block) in blocks.drain(from..).enumerate() {
        // SAFETY: alive and written by `fill`.
        assert_eq!(unsafe { block.read() }, (from + index) as u8);
        // SAFETY: from this heap, each once.
        unsafe { free(block) };
    }
}

/// Fills up to the limit twice with each size, with `bytes_min` at least; the second time must
/// reach as far as the first.
fn fill_and_empty(bytes_min: usize) {
    let mut blocks = Vec::with_capacity(BLOCKS_MAX);
    // SAFETY: from this heap; so it has started before memory is short.
    unsafe { free(malloc(1)) };
    limit_to(mapped_bytes() + (48 << 20));
    for size in [3 << 20, 1 << 20, 100_000, 32 << 10, 1000, 48] {
        let first = fill(&mut blocks, size);
        assert!(first * size >= bytes_min, "only {first} blocks of {size} bytes");
        let half = blocks.len() / 2;
        empty(&mut blocks, half);
        assert!(!malloc_and_free(size).is_null(), "{size} bytes after half was freed");
        empty(&mut blocks, 0);
        let second = fill(&mut blocks, size);
        assert!(second >= first * 9 / 10, "{size}: first {first}, then {second}");
        // A block that cannot grow keeps its contents.
        errno::set(0);
        // SAFETY: from this heap.
        assert_eq!(unsafe { realloc(blocks[0], 40 << 20) }, null_mut());
        assert_eq!(errno::get(), errno::ENOMEM);
        empty(&mut blocks, 0);
        trim(0);
        assert_eq!(report::totals().used_bytes, 0, "after blocks of {size} bytes");
    }
    limit_to(libc::RLIM_INFINITY);
    assert!(!malloc_and_free(200 << 20).is_null());
}

fn malloc_and_free(size: usize) -> *mut u8 {
    let block = malloc(size);
    // SAFETY: from this heap, or null.
    unsafe { free(block) };
    block
}

/// What small blocks have used up is there for a large one when they are free, and back again.
fn large_after_small() {
    let mut blocks = Vec::with_capacity(BLOCKS_MAX);
    limit_to(mapped_bytes() + (128 << 20));
    for _ in 0..3 {
        let small = fill(&mut blocks, 4000);
        assert!(small * 4000 > 64 << 20, "{small}");
        assert_eq!(malloc(60 << 20), null_mut());
        empty(&mut blocks, 0);
        // The failing allocation does that, too, but does not reach what is in other slots.
        trim(0);
        assert!(!malloc_and_free(60 << 20).is_null());
        trim(0);
    }
    assert_eq!(report::totals().used_bytes, 0);
}

/// The very first call finds no address space left.
fn start_late() {
    limit_to(mapped_bytes() >> 1);
    for _ in 0..10 {
        errno::set(0);
        assert_eq!(malloc(100), null_mut());
        assert_eq!(errno::get(), errno::ENOMEM);
    }
    limit_to(libc::RLIM_INFINITY);
    assert!(!malloc_and_free(100).is_null());
}

/// Maps all of the remaining address space; returns the mappings.
fn occupy_all() -> Vec<(*mut libc::c_void, usize)> {
    let mut taken = Vec::with_capacity(60_000);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let mut bytes = 1_usize << 46;
    while bytes >= 1 << 18 && taken.len() < taken.capacity() {
        // SAFETY: a new mapping, which replaces nothing.
        let place = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            bytes /= 2;
        } else {
            taken.push((place, bytes));
        }
    }
    taken
}

/// Without a limit, but with no address space left.
fn exhausted() {
    let mut blocks = Vec::with_capacity(BLOCKS_MAX);
    // SAFETY: from this heap; so it has started before memory is short.
    unsafe { free(malloc(1)) };
    let taken = occupy_all();
    fill(&mut blocks, 100_000);
    assert_eq!(malloc(3 << 20), null_mut());
    assert_eq!(malloc(1 << 40), null_mut());
    empty(&mut blocks, 0);
    for (place, bytes) in taken {
        // SAFETY: mapped by `occupy_all`, not used.
        assert_eq!(unsafe { libc::munmap(place, bytes) }, 0);
    }
    for size in [100, 100_000, 3 << 20, 100 << 20] {
        assert!(!malloc_and_free(size).is_null());
    }
    assert_eq!(report::totals().used_bytes, 0);
}

/// With holes of 32 MiB only, from the start on.
fn only_holes() {
    const HOLES: usize = 24;
    const HOLE_BYTES: usize = 32 << 20;
    let mut blocks = Vec::with_capacity(BLOCKS_MAX);
    let mut taken = occupy_all();
    let (place, bytes) = taken.iter_mut().max_by_key(|(_, bytes)| *bytes).unwrap();
    // The holes begin and end at odd pages.
    *bytes -= sheaves_sys::map::page_bytes();
    for _ in 0..HOLES {
        *bytes -= 2 * HOLE_BYTES;
        let hole = place.wrapping_byte_add(*bytes);
        // SAFETY: a part of what `occupy_all` has mapped, not used.
        assert_eq!(unsafe { libc::munmap(hole, HOLE_BYTES) }, 0);
    }
    let small = fill(&mut blocks, 1000);
    // The window, with a heap of 8 MiB, is used up to its end.
    assert!((7_000_000..8 << 20).contains(&(small * 1000)), "{small}");
    empty(&mut blocks, 0);
    let middle = fill(&mut blocks, 1 << 20);
    assert!(middle >= (HOLES * HOLE_BYTES / 4 * 3) >> 20, "{middle} MiB");
    empty(&mut blocks, 0);
    trim(0);
    assert_eq!(report::totals().used_bytes, 0);
    assert!(!malloc_and_free(20 << 20).is_null());
}

crate::cases! {
    address_space_limited NONE, GoesOn(&[]) => { fill_and_empty(16 << 20); }
    address_space_limited_portable PORTABLE, GoesOn(&[]) => { fill_and_empty(16 << 20); }
    // Each block has a record of its own, which is as large as the smallest ones.
    address_space_limited_debug DEBUG, GoesOn(&[]) => { fill_and_empty(12 << 20); }
    large_after_small_blocks NONE, GoesOn(&[]) => { large_after_small(); }
    large_after_small_blocks_portable PORTABLE, GoesOn(&[]) => { large_after_small(); }
    limited_from_the_start NONE, GoesOn(&[]) => { start_late(); }
    address_space_exhausted NONE, GoesOn(&[]) => { exhausted(); }
    address_space_of_holes NONE, GoesOn(&[]) => { only_holes(); }
    address_space_of_holes_portable PORTABLE, GoesOn(&[]) => { only_holes(); }
}
