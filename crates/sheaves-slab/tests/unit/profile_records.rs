extern crate std;

use std::collections::HashMap;

use super::*;

fn record(address: usize) -> Record {
    Record { address, bytes: address ^ 5, weight: 3, point: 0, site: 7, is_deferred: false }
}

#[test]
fn records_are_found_until_they_are_removed() {
    let mut records = Records::new();
    let mut known = HashMap::new();
    let mut seed = 1_u64;
    for _ in 0..200_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let address = ((seed >> 40) as usize % 20_000 + 1) * 16;
        let ours = records.remove(address);
        assert_eq!(ours, known.remove(&address));
        if ours.is_none() {
            assert!(records.insert(record(address)));
            known.insert(address, record(address));
        }
        assert_eq!(records.count, known.len());
    }
    for (address, record) in &known {
        assert_eq!(records.find(*address), Some(*record));
    }
    records.clear();
    assert_eq!((records.count, records.find(16)), (0, None));
}

#[test]
fn the_table_does_not_grow_without_end() {
    let mut records = Records::new();
    let accepted =
        (1..4 * RECORDS_MAX).take_while(|index| records.insert(record(index * 8))).count();
    assert_eq!(accepted, RECORDS_MAX);
    // One more after one less.
    assert!(records.remove(8).is_some());
    assert!(records.insert(record(8)));
    records.clear();
}
