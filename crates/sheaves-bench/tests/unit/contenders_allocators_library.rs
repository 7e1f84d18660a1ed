//! Tests of `src/contenders/allocators/library.rs`.

use super::*;

#[test]
fn layouts_keep_the_size() {
    for size in [8, 15, 16, 24, 1016, 16384] {
        assert_eq!(Layout::from_size_align(size, ALIGN).unwrap(), layout_of(size));
    }
}

#[test]
fn steps_cover_every_mixed_size() {
    let steps = BySteps::new(Ok::<usize, Failure>).unwrap();
    for size in 1..=MIXED_MAX {
        let step = steps.steps[size.div_ceil(STEP)];
        assert!(step >= size && step < size + STEP);
    }
}

#[test]
fn the_forms_hand_out_distinct_objects() {
    fn check<C: Allocator>(contender: C) {
        let first = contender.alloc(64);
        let second = contender.alloc(64);
        assert!(!first.is_null() && first != second);
        // SAFETY: handed out above and freed once.
        unsafe { contender.free(first, 64) };
        // SAFETY: as above.
        unsafe { contender.free(second, 64) };
    }
    check(make_cache("test", 64).unwrap());
    check(Sized);
    check(Malloc);
}
