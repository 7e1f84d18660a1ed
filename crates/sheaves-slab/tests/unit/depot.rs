use core::alloc::Layout;

use sheaves_percpu::{Access, slot_count};

use super::{Depot, EXCHANGES};
use crate::shape::Shape;

/// The size of sheaves after many exchanges in a short time, but for the first ones.
fn size_after_exchanges(depot: &Depot, shape: &Shape) -> usize {
    for _ in 0..64 * EXCHANGES {
        depot.count_exchange(shape);
    }
    depot.sheaf_objects.get() as usize
}

#[test]
fn sheaves_grow_to_what_is_in_use_and_no_further() {
    let _started = Access::get();
    let shape = Shape::new(Layout::new::<[u8; 64]>()).unwrap();
    let depot = Depot::new();
    depot.reset(&shape);
    let least = shape.sheaf_objects_min();
    assert_eq!(size_after_exchanges(&depot, &shape), least);
    let between = (least + shape.sheaf_objects) / 2;
    depot.count_refill(2 * slot_count() * between);
    assert_eq!(size_after_exchanges(&depot, &shape), between);
    depot.count_refill(2 * slot_count() * shape.sheaf_objects);
    assert_eq!(size_after_exchanges(&depot, &shape), shape.sheaf_objects);
    // It shrinks where exchanges are rare, not with every flush.
    depot.count_flush(2 * slot_count() * shape.sheaf_objects);
    assert_eq!(size_after_exchanges(&depot, &shape), shape.sheaf_objects);
}
