//! Tests of `src/tables/batch/mod.rs`.

use super::*;

#[test]
fn each_order_names_every_place_once() {
    for order in Order::ALL {
        let mut positions = order.positions();
        positions.sort_unstable();
        assert!(positions.iter().enumerate().all(|(place, entry)| place == *entry as usize));
    }
    assert_eq!(Order::Reverse.positions()[0] as usize, OBJECTS - 1);
    assert_ne!(Order::Shuffled.positions(), Order::Forward.positions());
}

#[test]
fn rows_are_the_whole_and_its_halves() {
    let names: Vec<_> = case(Order::Shuffled, 64).rows.into_iter().map(|row| row.name).collect();
    assert_eq!(names, ["batch/shuffled/64", "batch-alloc/shuffled/64", "batch-free/shuffled/64"]);
}
