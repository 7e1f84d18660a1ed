//! Tests of `src/tables/batch/mod.rs`.

use super::*;

#[test]
fn each_order_names_every_place_once() {
    for order in ORDERS {
        let mut positions = positions(order);
        positions.sort_unstable();
        assert!(positions.iter().enumerate().all(|(place, entry)| place == *entry as usize));
    }
    assert_eq!(positions(ORDERS[1])[0] as usize, OBJECTS - 1);
    assert_ne!(positions(ORDERS[2]), positions(ORDERS[0]));
}

#[test]
fn rows_are_the_whole_and_its_halves() {
    let names: Vec<_> = case(ORDERS[2], 64).rows.into_iter().map(|row| row.name).collect();
    assert_eq!(names, ["batch/shuffled/64", "batch-alloc/shuffled/64", "batch-free/shuffled/64"]);
}
