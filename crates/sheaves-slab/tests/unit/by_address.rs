//! Tests of private items of `records/by_address`.

extern crate std;

use std::collections::HashMap;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    address: usize,
    value: usize,
}

const ENTRIES_MAX: usize = 1 << 18;

// SAFETY: all fields are numbers.
unsafe impl ByAddress for Entry {
    const CAPACITY_MAX: usize = ENTRIES_MAX;

    fn address(&self) -> usize {
        self.address
    }
}

impl Table<Entry> {
    fn insert(&mut self, address: usize) -> bool {
        let has_room = self.reserve(1);
        if has_room {
            self.store(Entry { address, value: address ^ 5 });
        }
        has_room
    }

    fn take(&mut self, address: usize) -> Option<Entry> {
        let index = self.find(address)?;
        Some(self.remove(index))
    }
}

#[test]
fn entries_are_found_until_they_are_removed() {
    let mut table = Table::<Entry>::EMPTY;
    let mut known = HashMap::new();
    let mut seed = 1_u64;
    for _ in 0..200_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let address = ((seed >> 40) as usize % 20_000 + 1) * 16;
        let ours = table.take(address);
        assert_eq!(ours, known.remove(&address));
        if ours.is_none() {
            assert!(table.insert(address));
            known.insert(address, Entry { address, value: address ^ 5 });
        }
        assert_eq!(table.count(), known.len());
    }
    for (address, entry) in &known {
        assert_eq!(table.get(*address), Some(*entry));
    }
    table.clear();
    assert_eq!((table.count(), table.get(16)), (0, None));
}

#[test]
fn no_call_moves_all_entries() {
    let mut table = Table::<Entry>::EMPTY;
    let in_part = |table: &mut Table<Entry>| {
        (0..table.part.capacity).filter(|index| table.part.entry(*index).address != 0).count()
    };
    for number in 1..=2000 {
        let before = (table.part.base, in_part(&mut table));
        assert!(table.insert(number * 16));
        let is_same = table.part.base == before.0;
        assert!(in_part(&mut table) - if is_same { before.1 } else { 0 } <= MOVED + 1);
        assert!((1..=number).all(|number| table.find(number * 16).is_some()));
        if number % 3 == 0 {
            assert_eq!(
                table.take(number / 3 * 16).map(|entry| entry.address),
                Some(number / 3 * 16)
            );
            assert!(table.insert(number / 3 * 16));
        }
    }
    assert_eq!((table.count(), table.old.capacity), (2000, 0));
    table.clear();
}

#[test]
fn the_table_does_not_grow_without_end() {
    let mut table = Table::<Entry>::EMPTY;
    let accepted = (1..2 * ENTRIES_MAX).take_while(|index| table.insert(index * 8)).count();
    assert_eq!(accepted, ENTRIES_MAX / 2);
    // One more after one less.
    assert!(table.take(8).is_some());
    assert!(table.insert(8));
    table.clear();
}
