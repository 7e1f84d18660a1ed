//! Tests of `src/tables/worst`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;

#[test]
fn rows_are_named_by_call_and_heap() {
    let names: Vec<_> = case(64).rows.into_iter().map(|row| row.name).collect();
    assert_eq!(names.len(), MEASURES.len());
    for name in ["worst-malloc/64-mib", "worst-free-p9999/64-mib", "worst-realloc/64-mib"] {
        assert!(names.iter().any(|known| known == name), "{name} is missing in {names:?}");
    }
}

#[test]
fn heaps_fit_into_memory() {
    assert!(available_bytes().is_none_or(|bytes| bytes > 1 << 20));
}

#[test]
fn all_calls_are_timed_and_the_longest_is_the_longest() {
    let course = Course { bytes: 4 << 20, replaced: 1000, resized: 1000 };
    let mut sampler = course.sampler(Glibc).unwrap();
    for _ in 0..2 {
        let values = sampler.sample().unwrap();
        assert_eq!(values.len(), MEASURES.len());
        for pair in values.chunks(2) {
            assert!(pair[0] >= pair[1] && pair[1] > 0.0, "{values:?}");
        }
    }
}

#[test]
fn the_heap_is_thinned_at_random() {
    let course = Course { bytes: 1 << 20, replaced: 10, resized: 10 };
    let mut heap = Heap::new(&Glibc, course, 1);
    let count = heap.blocks.len();
    assert_eq!(count, (1 << 20) / 1250);
    heap.run(course);
    assert_eq!(heap.blocks.len(), count / 16);
    assert_eq!(heap.realloc.len(), 10);
    // Half, then those above a sixteenth of what is left with the eighth, then those replaced.
    let freed = (count - count / 2) + (count / 2 + count / 8 - count / 16) + 10;
    assert_eq!(heap.free.len(), freed as u64);
    assert_eq!(heap.malloc.len(), (count / 8 + 10) as u64);
}
