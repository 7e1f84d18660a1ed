//! Statistics agree with the operations.

use crate::dynamic::{Allocator, Config, PAGE_BYTES};

use super::arena::Arena;

const CONFIG: Config = Config { unit_bytes: 32 << 10, chunks_max: 8 };

fn allocator() -> Allocator<Arena> {
    Allocator::new(Arena::new(), CONFIG).unwrap()
}

#[test]
fn nothing_is_there_at_first() {
    let mut a = allocator();
    let s = a.statistics();
    assert_eq!((s.allocations, s.objects(), s.chunks, s.populated_pages), (0, 0, 0, 0));
    assert!(s.metadata_bytes_per_chunk < CONFIG.unit_bytes / 12);
    assert_eq!((a.unusable_bytes(), a.allocated_bytes()), (0, 0));
}

#[test]
fn objects_pages_and_chunks_are_counted() {
    let mut a = allocator();
    let mut alloc = |size| a.alloc(size, 4).unwrap();
    let (_small, large, _first) = (alloc(13), alloc(20_000), alloc(100));
    let _second_chunk = alloc(30_000);
    a.free(large).unwrap();
    let s = a.statistics();
    assert_eq!((s.allocations, s.frees, s.objects(), s.chunks), (4, 1, 3, 2));
    assert_eq!(a.counters().object_bytes_min, 16);
    // 20,116 bytes, and 30,000 bytes of the second chunk.
    assert_eq!(s.populated_pages, 5 + 8);
    assert_eq!(s.empty_pages, 3);
    assert_eq!(a.allocated_bytes(), 16 + 100 + 30_000);
    assert_eq!(a.chunks().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn holes_are_counted_as_unusable() {
    let config = Config { chunks_max: 64, ..CONFIG };
    let mut a = Allocator::new(Arena::new(), config).unwrap();
    for _ in 0..6_144 {
        for (size, align) in [(16, 16), (16, 16), (20, 4)] {
            a.alloc(size, align).unwrap();
        }
    }
    assert_eq!(a.unusable_bytes(), 6_144 * 12);
    assert_eq!(a.allocated_bytes(), 6_144 * 52);
    let statistics = a.statistics();
    let pages = statistics.populated_pages - statistics.empty_pages;
    assert_eq!(pages as usize * PAGE_BYTES, 6_144 * 64);
    // Each request tests one chunk, and does not search again before its scan hint.
    let work = a.counters();
    let each = |count: u64| count as f64 / (3.0 * 6_144.0);
    assert!(each(work.chunks_tested) <= 1.01 && each(work.pages_refreshed) < 0.1, "{work:?}");
    assert!(each(work.words_read) < 10.0, "{work:?}");
}

/// Chunks tested by 100 requests while 32 chunks are full of holes of `hole` bytes.
fn tested_among_holes(hole: usize, size: usize, align: usize) -> u64 {
    let config = Config { chunks_max: 64, ..CONFIG };
    let mut a = Allocator::new(Arena::new(), config).unwrap();
    let mut objects = Vec::new();
    while a.statistics().chunks <= 32 {
        objects.push(a.alloc(hole, 4).unwrap());
    }
    for object in objects.iter().step_by(2) {
        a.free(*object).unwrap();
    }
    let before = a.counters().chunks_tested;
    for _ in 0..100 {
        a.alloc(size, align).unwrap();
    }
    a.counters().chunks_tested - before
}

/// Chunks with small holes are relegated, and larger holes have lists of their own. Where holes are
/// large enough but badly aligned, the number of tests is limited.
#[test]
fn chunks_that_do_not_fit_are_tested_within_limits() {
    assert!(tested_among_holes(16, 20, 4) < 150);
    assert!(tested_among_holes(40, 60, 4) < 150);
    assert!(tested_among_holes(68, 64, 64) < 1000);
}
