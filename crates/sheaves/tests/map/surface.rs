//! Room on request, hashes of the default hasher, and traits of the types.

use core::hash::BuildHasher;
use core::panic::{RefUnwindSafe, UnwindSafe};
use std::collections::HashSet;
use std::sync::Arc;

use sheaves::map::{DefaultHashBuilder, RcuHashMap, RcuHashSet};
use sheaves::rcu::defer::barrier;
use sheaves::rcu::{RcuBox, RcuCell, RcuOption, read};

const COUNT: u64 = 5000;

#[test]
fn every_hasher_with_a_default_makes_maps_and_sets() {
    let map = RcuHashMap::<u64, u64, std::hash::RandomState>::new();
    let set = RcuHashSet::<u64, std::hash::RandomState>::with_capacity(10);
    assert!(map.is_empty() && set.is_empty());
}

#[test]
fn reserved_room_is_there_and_stays() {
    for before in [0, 10, 500] {
        let map: RcuHashMap<u64, u64> = (0..before).map(|key| (key, key)).collect();
        map.reserve(COUNT as usize);
        let capacity = map.capacity();
        assert!(capacity as u64 >= before + COUNT, "{before}: {capacity}");
        (&map).extend((before..before + COUNT).map(|key| (key, key)));
        assert_eq!(map.capacity(), capacity, "{before}");
        map.retain(|_, _| false);
        map.reserve(0);
        assert_eq!((map.capacity(), map.len()), (capacity, 0), "{before}");
        map.clear();
        map.insert(1, 1, &read());
        assert_eq!(map.capacity(), capacity, "{before}");
    }
}

#[test]
fn impossible_room_changes_nothing() {
    for room in [1 << 55, usize::MAX / 2, usize::MAX] {
        let map: RcuHashMap<u64, u64> = RcuHashMap::with_capacity(room);
        map.reserve(room);
        assert_eq!(map.capacity(), 0);
        map.insert(1, 1, &read());
        let capacity = map.capacity();
        map.reserve(room);
        assert_eq!(map.capacity(), capacity);
        map.clear();
        map.insert(1, 1, &read());
        assert_eq!(map.capacity(), capacity);
    }
}

/// Also room that is made while other threads insert and remove.
#[test]
fn room_is_made_beside_changes() {
    let map: RcuHashMap<u64, u64> = RcuHashMap::new();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let map = &map;
            scope.spawn(move || {
                for key in (thread..2 * COUNT).step_by(2) {
                    map.insert(key, key, &read());
                    if key % 10 == thread {
                        map.remove(&key, &read());
                    }
                }
            });
        }
        (0..20).for_each(|step| map.reserve(step * 500));
    });
    let expected = (0..2 * COUNT).filter(|key| ![0, 1].contains(&(key % 10)));
    assert_eq!(map.len(), expected.clone().count());
    assert!(expected.into_iter().all(|key| map.contains_key(&key)));
}

/// A closure keeps a chain: the call ends all the same.
#[test]
fn room_is_not_waited_for() {
    let map: RcuHashMap<u64, u64> = (0..100).map(|key| (key, key)).collect();
    let reserve = |value: Option<&u64>| {
        std::thread::scope(|scope| {
            scope.spawn(|| map.reserve(COUNT as usize));
        });
        value.copied()
    };
    map.compute(7, reserve, &read());
    assert!((0..100).all(|key| map.get(&key, &read()) == Some(&key)));
    map.reserve(COUNT as usize);
    assert!(map.capacity() as u64 >= COUNT);
}

#[test]
fn closures_run_for_absent_or_present_keys() {
    let map: RcuHashMap<u64, Arc<u64>> = RcuHashMap::new();
    let value = Arc::new(1);
    let pinned = map.pin();
    assert_eq!(pinned.try_insert_with(1, || value.clone()), Ok(&value));
    assert_eq!(pinned.try_insert_with(1, || unreachable!()), Err(&value));
    let other = pinned.update_or_insert_with(2, |_| unreachable!(), || value.clone());
    assert_eq!(other, &value);
    let other = pinned.update_or_insert_with(2, |old| Arc::new(**old + 1), || unreachable!());
    assert_eq!(**other, 2);
    assert_eq!(**pinned.get_or_insert_ref(&1, || unreachable!()), 1);
    pinned.reserve(100);
    pinned.retain(|key, _| *key == 2);
    drop(pinned);
    assert_eq!(map.len(), 1);
    drop(map);
    barrier().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}

/// Keys that differ in few bits have hashes that differ in half of them.
#[test]
fn default_hashes_differ() {
    let hasher = DefaultHashBuilder::new();
    let hashes: HashSet<u64> = (0..COUNT).map(|key| hasher.hash_one(key << 20)).collect();
    assert_eq!(hashes.len() as u64, COUNT);
    let differing: u32 = (0..64)
        .map(|bit| (hasher.hash_one(1_u64 << bit) ^ hasher.hash_one(0_u64)).count_ones())
        .sum();
    assert!((28 * 64..36 * 64).contains(&differing), "{differing}");
    assert_eq!(hasher.hash_one("a"), DefaultHashBuilder::default().hash_one(String::from("a")));
    let all = [
        hasher.hash_one(1_u8),
        hasher.hash_one(2_u16),
        hasher.hash_one(3_u128),
        hasher.hash_one([4_u8; 9]),
    ];
    assert_eq!(HashSet::from(all).len(), all.len());
}

#[test]
fn types_may_cross_threads_and_panics() {
    fn check<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    check::<RcuHashMap<u64, String>>();
    check::<RcuHashSet<String>>();
    check::<RcuCell<String>>();
    check::<RcuOption<String>>();
    check::<RcuBox<String>>();
}
