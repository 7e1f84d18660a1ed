//! Tests of private items of `memory/class`.

use super::*;

#[test]
fn every_small_shape_fits_its_class() {
    for size in 1..=BYTES_MAX {
        for shift in 0..=12 {
            let shape = Shape::new(size, 1 << shift).unwrap();
            let Some(class) = Class::of(shape) else {
                assert!(shift > 2, "{shape:?} has no class");
                continue;
            };
            assert!(class.size() >= size && class.align() >= 1 << shift);
            assert!(class.size() - size < 32);
            assert!(size > 64 || class.size() - size < 4);
        }
    }
    assert_eq!(Class::of(Shape::new(BYTES_MAX + 1, 4).unwrap()), None);
}

#[test]
fn common_shapes_have_classes() {
    for (size, align) in [(4, 4), (8, 8), (16, 8), (16, 16), (24, 8), (64, 64), (128, 64)] {
        assert!(Class::of(Shape::new(size, align).unwrap()).is_some(), "{size} at {align}");
    }
    // Rounding up would waste 12 bytes of 32.
    assert_eq!(Class::of(Shape::new(20, 16).unwrap()), None);
}
