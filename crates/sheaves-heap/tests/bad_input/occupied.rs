//! Other mappings occupy addresses where the heap and its metadata would grow.

use core::ops::Range;

use sheaves_heap::{free, malloc, report};

use crate::End::GoesOn;

const PAGE: usize = 4 << 10;
const CHUNK: usize = 2 << 20;
const WINDOW: usize = 5 << 40;
/// Blocks of one granule each: together 32 chunks, with 640 KiB of headers.
const BLOCKS: usize = 1 << 10;
const BLOCK_BYTES: usize = 64 << 10;

/// The mapped address ranges of this process, in order.
fn ranges() -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
        let (from, rest) = line.split_once('-').unwrap();
        let to = rest.split(' ').next().unwrap();
        let [from, to] = [from, to].map(|hex| usize::from_str_radix(hex, 16).unwrap());
        match ranges.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => ranges.push(from..to),
        }
    }
    ranges
}

/// The end of the region at distance `region` behind the heap, which contains `address`.
fn end_of(region: usize, address: usize) -> usize {
    let ranges = ranges();
    let heap = ranges.iter().position(|range| range.contains(&address)).unwrap();
    // Heap, chunks, headers, sheaves.
    assert!(ranges[heap + 3].end < address + WINDOW, "{ranges:x?}");
    ranges[heap + region].end
}

/// Maps pages without access.
fn occupy(address: usize, bytes: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let flags = flags | libc::MAP_NORESERVE;
    let place = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: replaces nothing.
    let mapped = unsafe { libc::mmap(place, bytes, libc::PROT_NONE, flags, -1, 0) };
    assert_eq!(mapped, place);
}

/// Allocates and frees past mappings at `(offset, bytes)` after the end of the region that is at
/// distance `region` behind the heap.
fn grows_over(region: usize, mappings: &[(usize, usize)]) {
    let first = malloc(BLOCK_BYTES);
    let end = end_of(region, first.expose_provenance());
    for (offset, bytes) in mappings {
        occupy(end + offset, *bytes);
    }
    // Every class has sheaves of its own.
    for size in (16..32 << 10).step_by(16) {
        // SAFETY: from this heap.
        unsafe { free(malloc(size)) };
    }
    let (last, bytes) = mappings[mappings.len() - 1];
    let beyond = end + last + bytes;
    let is_new =
        |range: &Range<usize>| range.end > beyond && range.start <= beyond + bytes + (16 << 20);
    for size in [BLOCK_BYTES, 48] {
        let count = BLOCKS * BLOCK_BYTES / size;
        let blocks: Vec<_> = (0..count).map(|_| malloc(size)).collect();
        for (index, block) in blocks.iter().enumerate() {
            assert!(!block.is_null(), "block {index} of {size} bytes");
            // SAFETY: the block has `size` bytes.
            unsafe { block.cast::<usize>().write(index) };
        }
        assert!(ranges().iter().any(is_new), "nothing was mapped behind {beyond:x}");
        for (index, block) in blocks.into_iter().enumerate() {
            // SAFETY: alive, written above.
            assert_eq!(unsafe { block.cast::<usize>().read() }, index);
            // SAFETY: from this heap.
            unsafe { free(block) };
        }
        sheaves_heap::trim(0);
    }
    // SAFETY: from this heap.
    unsafe { free(first) };
    let totals = report::totals();
    assert_eq!(totals.used_bytes, 0);
    assert!(totals.heap_bytes < 4 * BLOCKS * BLOCK_BYTES, "counts what others have mapped");
}

/// Every other chunk after the heap.
fn stripes() -> Vec<(usize, usize)> {
    (0..8).map(|index| (2 * index * CHUNK, CHUNK)).collect()
}

const HEAP: usize = 0;
const HEADERS: usize = 2;
const SHEAVES: usize = 3;

crate::cases! {
    heap_page [], GoesOn(&[]) => { grows_over(HEAP, &[(0, PAGE)]); }
    heap_page_in_chunk [], GoesOn(&[]) => { grows_over(HEAP, &[(CHUNK / 2, PAGE)]); }
    heap_page_at_end_of_chunk [], GoesOn(&[]) => { grows_over(HEAP, &[(CHUNK - PAGE, PAGE)]); }
    heap_page_later [], GoesOn(&[]) => { grows_over(HEAP, &[(5 * CHUNK, PAGE)]); }
    heap_chunk [], GoesOn(&[]) => { grows_over(HEAP, &[(0, CHUNK)]); }
    heap_two_chunks [], GoesOn(&[]) => { grows_over(HEAP, &[(PAGE, CHUNK)]); }
    heap_many_chunks [], GoesOn(&[]) => { grows_over(HEAP, &[(0, 100 * CHUNK + PAGE)]); }
    heap_64_gib [], GoesOn(&[]) => { grows_over(HEAP, &[(0, 1 << 36)]); }
    heap_twice [], GoesOn(&[]) => { grows_over(HEAP, &[(0, PAGE), (9 * CHUNK, 3 * CHUNK)]); }
    heap_stripes [], GoesOn(&[]) => { grows_over(HEAP, &stripes()); }
    // In debug mode guards are between the slabs, which this does not expect.
    heap_hardened [("SHEAVES_HARDEN", "1")], GoesOn(&[]) => { grows_over(HEAP, &[(0, CHUNK)]); }
    heap_portable [("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
    GoesOn(&[]) => { grows_over(HEAP, &stripes()); }
    headers_page [], GoesOn(&[]) => { grows_over(HEADERS, &[(0, PAGE)]); }
    headers_page_later [], GoesOn(&[]) => { grows_over(HEADERS, &[(40 * PAGE, PAGE)]); }
    headers_many_pages [], GoesOn(&[]) => { grows_over(HEADERS, &[(PAGE, 300 * PAGE)]); }
    sheaves_page [], GoesOn(&[]) => { grows_over(SHEAVES, &[(0, PAGE)]); }
}
