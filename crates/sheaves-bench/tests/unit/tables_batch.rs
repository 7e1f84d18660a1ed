//! Tests of `src/tables/batch/mod.rs`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;

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
    let names: Vec<_> = case(Cycles { order: ORDERS[2], swept: 0, size: 64 })
        .rows
        .into_iter()
        .map(|row| row.name)
        .collect();
    assert_eq!(names, ["batch/shuffled/64", "batch-alloc/shuffled/64", "batch-free/shuffled/64"]);
}

#[test]
fn caches_are_swept_before_batches() {
    let cases = |few| cases(&Options { sizes: vec![64], threads: 1, few, quick: few });
    assert_eq!((cases(true).len(), cases(false).len()), (3, 6));
    let cold = &cases(false)[5];
    assert_eq!(cold.name(), "batch/cold/32m/64");
    let cycles = Cycles { order: ORDERS[0], swept: SWEEPS[0].1, size: 64 };
    let values = cycles.sampler(Glibc).unwrap().sample().unwrap();
    assert!(values.len() == cold.rows.len() && values.iter().all(|value| *value > 0.0));
}
