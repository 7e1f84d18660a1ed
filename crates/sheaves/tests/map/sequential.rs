//! One thread, compared with the map of `std`.

use core::hash::BuildHasher;
use std::collections::HashMap;
use std::hash::RandomState;

use sheaves::map::RcuHashMap;
use sheaves::rcu::read;

use super::{Random, Spread, amount};

/// Random operations on both maps, with all results compared. The number of entries rises and
/// falls.
fn compare<S: BuildHasher + Default>(seed: u64, keys: u64, operations: usize) {
    let map = RcuHashMap::<u64, u64, S>::default();
    let mut model = HashMap::new();
    let mut random = Random::new(seed);
    let (mut capacity_max, mut capacity_min_after) = (0, usize::MAX);
    for step in 0..operations {
        // For a quarter of the time removals outnumber insertions.
        let is_ebb = step * 8 / operations % 4 == 3;
        let (key, value) = (random.below(keys), random.next());
        let guard = read();
        match random.below(12) {
            0..4 if !is_ebb => {
                assert_eq!(map.insert(key, value, &guard).copied(), model.insert(key, value));
            }
            4 if !is_ebb => {
                let made = map.get_or_insert_with(key, || value, &guard);
                assert_eq!(made, model.entry(key).or_insert(value));
            }
            5 => {
                let updated = map.compute(key, |old| old.map(|old| old ^ value), &guard).copied();
                let expected = model.get_mut(&key).map(|old| {
                    *old ^= value;
                    *old
                });
                assert_eq!(updated, expected);
            }
            6 => {
                let make = |old: Option<&u64>| {
                    if value % 3 == 0 { None } else { Some(old.map_or(1, |old| old + 1)) }
                };
                let new = make(model.get(&key));
                assert_eq!(map.compute(key, make, &guard).copied(), new);
                match new {
                    Some(new) => model.insert(key, new),
                    None => model.remove(&key),
                };
            }
            7..10 => {
                assert_eq!(map.get(&key, &guard), model.get(&key));
                assert_eq!(map.contains_key(&key), model.contains_key(&key));
            }
            _ => assert_eq!(map.remove(&key, &guard).copied(), model.remove(&key)),
        }
        assert_eq!(map.len(), model.len());
        capacity_max = capacity_max.max(map.capacity());
        if is_ebb {
            capacity_min_after = capacity_min_after.min(map.capacity());
        }
        if step % (operations / 16) == 0 {
            check_all(&map, &model);
        }
    }
    check_all(&map, &model);
    // The table has grown, and has shrunk again when the map was emptied.
    assert!(capacity_max >= model.len() && capacity_max > 64, "{capacity_max}");
    map.retain(|key, _| key % 2 == 0);
    model.retain(|key, _| key % 2 == 0);
    check_all(&map, &model);
    map.clear();
    assert!(map.is_empty() && map.iter(&read()).next().is_none());
}

fn check_all<S: BuildHasher>(map: &RcuHashMap<u64, u64, S>, model: &HashMap<u64, u64>) {
    let guard = read();
    let mut found: Vec<_> = map.iter(&guard).map(|(key, value)| (*key, *value)).collect();
    let mut expected: Vec<_> = model.iter().map(|(key, value)| (*key, *value)).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn results_are_those_of_a_map() {
    let operations = amount(200_000, 5000, 300);
    for seed in 1..=amount(4, 4, 1) as u64 {
        compare::<RandomState>(seed, 20_000, operations);
        compare::<Spread<64>>(seed + 10, 500, operations);
    }
}

#[test]
fn bad_hashes_are_slow_and_right() {
    let operations = amount(20_000, 2000, 250);
    compare::<Spread<0>>(20, 400, operations);
    compare::<Spread<4>>(21, 2000, operations);
    compare::<Spread<8>>(22, 2000, operations);
}

#[test]
fn tables_grow_and_shrink_to_what_was_asked_for() {
    const COUNT: u64 = if cfg!(miri) { 100 } else { 10_000 };
    for asked in [0, 100] {
        let map = RcuHashMap::<u64, u64, _>::with_capacity_and_hasher(asked, RandomState::new());
        let least = map.capacity();
        assert!(least >= asked);
        for key in 0..COUNT {
            map.insert(key, key, &read());
        }
        let most = map.capacity();
        assert!((COUNT..8 * COUNT).contains(&(most as u64)), "{most}");
        for key in 0..COUNT {
            assert_eq!(map.remove(&key, &read()).copied(), Some(key));
        }
        // Removals that find nothing do not continue a resize: insert and remove a few entries.
        for key in 0..COUNT {
            map.insert(key, key, &read());
            map.remove(&key, &read());
        }
        assert!(map.capacity() < 1000 && map.capacity() >= least, "{}", map.capacity());
    }
}

#[test]
fn keys_are_found_by_what_they_borrow() {
    const COUNT: usize = if cfg!(miri) { 40 } else { 1000 };
    let map = RcuHashMap::<String, Vec<u8>, RandomState>::default();
    let guard = read();
    for number in 0..COUNT {
        map.insert(format!("key {number}"), vec![1; number], &guard);
    }
    let last = format!("key {}", COUNT - 1);
    assert_eq!(map.get(last.as_str(), &guard).map(Vec::len), Some(COUNT - 1));
    assert_eq!(map.remove("key 5", &guard).map(Vec::len), Some(5));
    assert!(!map.contains_key("key 5") && map.contains_key("key 6"));
    assert_eq!(map.len(), COUNT - 1);
    assert!(format!("{map:?}").contains("\"key 0\": []"));
}

#[test]
fn values_without_size_and_large_ones() {
    let set = RcuHashMap::<(), (), RandomState>::default();
    assert!(set.insert((), (), &read()).is_none());
    assert!(set.insert((), (), &read()).is_some());
    assert_eq!((set.len(), set.contains_key(&())), (1, true));
    let large = RcuHashMap::<u8, [u64; 10_000], RandomState>::default();
    for round in 0..100 {
        large.insert(round % 3, [u64::from(round); 10_000], &read());
    }
    assert_eq!(large.get(&0, &read()).map(|value| value[9999]), Some(99));
}

#[test]
fn closure_that_panics_changes_nothing() {
    let map = RcuHashMap::<u64, u64, RandomState>::default();
    map.insert(1, 1, &read());
    for key in [1, 2] {
        let attempt = core::panic::AssertUnwindSafe(|| {
            map.compute(key, |_| panic!("as it is meant to"), &read());
        });
        assert!(std::panic::catch_unwind(attempt).is_err());
    }
    // The chains are not locked.
    assert_eq!(map.insert(1, 2, &read()).copied(), Some(1));
    assert!(map.insert(2, 2, &read()).is_none());
}
