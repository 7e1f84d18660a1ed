//! Tests of private items of `parts/shape`.

use super::*;

fn shape_of(size: usize, align: usize) -> Option<Shape> {
    Shape::new(Layout::from_size_align(size, align).unwrap())
}

#[test]
fn index_is_exact_for_every_offset() {
    for size in [8, 16, 24, 48, 80, 112, 144, 1000, 1024, 1152, 3072, 20480, 32768, 65536] {
        let shape = shape_of(size, 8).unwrap();
        let stride = shape.stride;
        assert!(stride >= size && (size < 1024 || !stride.is_multiple_of(1024) || stride == 65536));
        for offset in 0..shape.granules * GRANULE_BYTES {
            let index = offset / stride;
            let expected = offset % stride == 0 && index < shape.slab_objects;
            assert_eq!(shape.index_of(offset), expected.then_some(index), "{stride} {offset}");
        }
    }
}

/// The unused end of a slab is less than an eighth of it, except for the smallest objects: a
/// slab has room for more of these than a header has bits.
#[test]
fn slabs_are_used_whole_but_for_objects_of_8_bytes() {
    for size in 1..=OBJECT_BYTES_MAX {
        let shape = shape_of(size, 8).unwrap();
        let (used, slab) = (shape.slab_objects * shape.stride, shape.granules * GRANULE_BYTES);
        if shape.stride == 8 {
            assert_eq!((used, shape.slab_objects), (slab / 2, slab::OBJECTS_MAX));
        } else {
            assert!(slab - used < slab / 8, "{size}");
        }
    }
}

#[test]
fn shapes_out_of_range_are_refused() {
    assert!(shape_of(0, 8).is_none());
    assert!(shape_of(OBJECT_BYTES_MAX + 1, 8).is_none());
    assert!(shape_of(OBJECT_BYTES_MAX - 1, 2 * GRANULE_BYTES).is_none());
}

/// A hardened cache writes canaries into all objects of a sheaf that it fills: of its first ones to
/// two pages at most, as programs have many sizes of which they use a few objects.
#[test]
fn first_sheaves_of_hardened_caches_take_few_pages() {
    for (size, objects) in [(16, 31), (1000, 4), (5000, 1), (20_000, 1), (40_000, 0)] {
        let layout = Layout::from_size_align(size, 8).unwrap();
        let shape = Shape::named(layout, Checking::Hardened).unwrap();
        assert_eq!(shape.sheaf_objects_min(), objects, "{size}");
    }
}
