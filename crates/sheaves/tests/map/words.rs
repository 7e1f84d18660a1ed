//! The map of words: against std's map, beside other threads, and what words are.

use core::fmt::Debug;
use core::hash::BuildHasher;
use core::num::{NonZeroI8, NonZeroU64};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::hash::RandomState;
use std::time::Instant;

use sheaves::map::{RcuWordMap, Word};
use sheaves::rcu::read;

use super::{Random, Spread, amount};

type Map<S = RandomState> = RcuWordMap<u64, u64, S>;

fn check_all<S: BuildHasher>(map: &Map<S>, model: &HashMap<u64, u64>) {
    let guard = read();
    let mut found: Vec<_> = map.iter(&guard).collect();
    let mut by_folding = Vec::new();
    map.iter(&guard).for_each(|entry| by_folding.push(entry));
    assert_eq!(found, by_folding);
    let values: Vec<_> = map.values(&guard).collect();
    assert!(found.iter().map(|entry| entry.1).eq(values));
    found.sort_unstable();
    let mut expected: Vec<_> = model.iter().map(|(key, value)| (*key, *value)).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// Random operations on both maps, with all results compared.
fn compare<S: BuildHasher + Default>(seed: u64, keys: u64, operations: usize) {
    let (map, mut model) = (Map::<S>::default(), HashMap::new());
    let mut random = Random::new(seed);
    for step in 0..operations {
        // For a quarter of the time removals outnumber insertions.
        let is_ebb = step * 8 / operations % 4 == 3;
        let (key, value) = (random.below(keys), random.next());
        match random.below(12) {
            0..4 if !is_ebb => assert_eq!(map.insert(key, value), model.insert(key, value)),
            4 if !is_ebb => {
                let expected = model.get(&key).map_or(Ok(()), |old| Err(*old));
                assert_eq!(map.try_insert(key, value), expected);
                model.entry(key).or_insert(value);
            }
            5 => {
                let new = model.get(&key).map(|old| old ^ value);
                assert_eq!(map.update(key, |old| old ^ value), new);
                new.map(|new| model.insert(key, new));
            }
            6 => {
                let make = |old: Option<u64>| (value % 3 != 0).then(|| old.map_or(1, |old| !old));
                let new = make(model.get(&key).copied());
                assert_eq!(map.compute(key, make), new);
                match new {
                    Some(new) => model.insert(key, new),
                    None => model.remove(&key),
                };
            }
            7..10 => {
                assert_eq!(map.get(&key), model.get(&key).copied());
                assert_eq!(map.contains_key(&key), model.contains_key(&key));
            }
            _ => assert_eq!(map.remove(&key), model.remove(&key)),
        }
        assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
        if step % (operations / 16) == 0 {
            check_all(&map, &model);
        }
    }
    map.retain(|key, _| key % 2 == 0);
    model.retain(|key, _| key % 2 == 0);
    check_all(&map, &model);
    map.clear();
    check_all(&map, &HashMap::new());
}

#[test]
fn words_are_those_of_a_map() {
    let operations = amount(200_000, 2000, 200);
    for seed in 1..=amount(3, 3, 1) as u64 {
        compare::<RandomState>(seed, 20_000, operations);
        compare::<Spread<64>>(seed + 10, 300, operations);
    }
    for seed in 1..=amount(2, 2, 1) as u64 {
        compare::<Spread<0>>(seed, 100, operations / 10);
        compare::<Spread<5>>(seed, 2000, operations / 10);
    }
}

/// Keys of each writer with which the table grows.
const GROWING: u64 = if cfg!(miri) { 50 } else { 20_000 };

/// A value that belongs to a key.
fn sealed(key: u64, serial: u64) -> u64 {
    let serial = serial & 0xFFFF_FFFF;
    serial << 32 | ((key << 32 | serial).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32)
}

fn check(key: u64, value: u64) {
    assert_eq!(value, sealed(key, value >> 32), "key {key} has the value of another one");
}

/// Writers fill places that others have vacated, while the table grows and is cleared.
fn storm<S: BuildHasher + Default + Sync>(keys: u64, is_cleared: bool) {
    const WRITERS: u64 = 2;
    let (map, stop) = (&Map::<S>::default(), &AtomicBool::new(false));
    let time = Duration::from_millis(amount(1000, 100, 100) as u64);
    let seen = &AtomicU64::new(0);
    let known: Vec<HashMap<u64, u64>> = std::thread::scope(|scope| {
        let write = move |writer: u64| {
            let (mut random, mut known, mut serial) = (Random::new(writer + 1), HashMap::new(), 0);
            while !stop.load(Ordering::Relaxed) {
                serial += 1;
                let key = random.below(keys) * WRITERS + writer;
                let value = sealed(key, serial);
                let (old, before) = match random.below(5) {
                    0..2 => (map.insert(key, value), known.insert(key, value)),
                    2 => {
                        let old = map.update(key, |_| value).map(|_| value);
                        (old, known.get_mut(&key).map(|known| *known = value).map(|()| value))
                    }
                    _ => (map.remove(&key), known.remove(&key)),
                };
                // Another thread takes entries out, and no other puts some in.
                assert!(old == before || is_cleared && old.is_none(), "{key}");
            }
            known
        };
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        scope.spawn(move || {
            let mut random = Random::new(77);
            while !stop.load(Ordering::Relaxed) {
                for key in (0..100).map(|_| random.below(WRITERS * keys)) {
                    if let Some(value) = map.get(&key) {
                        check(key, value);
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                }
                map.iter(&read()).for_each(|(key, value)| check(key, value));
                if is_cleared && random.below(100) == 0 {
                    map.clear();
                }
            }
        });
        let begin = Instant::now();
        while begin.elapsed() < time || seen.load(Ordering::Relaxed) < 100 {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    if !is_cleared {
        check_all(map, &known.into_iter().flatten().collect());
    }
    assert_eq!(map.iter(&read()).count(), map.len());
}

#[test]
fn words_of_two_entries_are_never_mixed() {
    // All keys have one tag: a few places, which are filled over and over.
    storm::<Spread<0>>(4, false);
    storm::<Spread<0>>(20, false);
}

#[test]
fn words_are_found_while_the_table_grows() {
    storm::<RandomState>(GROWING, false);
}

#[test]
fn words_are_cleared_beside_changes() {
    storm::<RandomState>(GROWING, true);
}

#[test]
fn every_update_of_a_word_counts() {
    let rounds = amount(20_000, 200, 20) as u64;
    let map = &RcuWordMap::<u8, u64, RandomState>::default();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for _ in 0..rounds {
                    map.compute(7, |count| Some(count.unwrap_or(0) + 1));
                    // Its own entry comes and goes meanwhile.
                    assert_eq!(map.try_insert(thread + 10, 1), Ok(()));
                    assert_eq!(map.remove(&(thread + 10)), Some(1));
                }
            });
        }
    });
    assert_eq!((map.get(&7), map.len()), (Some(4 * rounds), 1));
}

/// A closure may use the map: it runs without a lock.
#[test]
fn closure_changes_the_map_that_calls_it() {
    let map = Map::<Spread<0>>::from([(1, 1), (2, 2)]);
    let mut calls = 0;
    let sum = map.compute(1, |value| {
        calls += 1;
        if calls == 1 {
            map.insert(1, 10);
            map.remove(&2);
        }
        value.map(|value| value + 5)
    });
    assert_eq!((sum, calls, map.get(&1), map.get(&2)), (Some(15), 2, Some(15), None));
    map.retain(|key, _| map.insert(key + 100, 0).is_some());
    assert!(!map.contains_key(&1));
}

#[test]
fn permanent_words_are_returned_once_while_others_come() {
    let rounds = amount(20, 3, 1);
    const STAY: u64 = if cfg!(miri) { 40 } else { 400 };
    for _ in 0..rounds {
        let map = &Map::<RandomState>::default();
        map.reserve(1);
        (0..STAY).for_each(|key| _ = map.insert(key, key));
        let stop = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for key in STAY..STAY * if cfg!(miri) { 4 } else { 100 } {
                    map.insert(key, key);
                }
                stop.store(true, Ordering::Relaxed);
            });
            while !stop.load(Ordering::Relaxed) {
                let mut times = [0; STAY as usize];
                map.iter(&read()).filter(|entry| entry.0 < STAY).for_each(|(key, value)| {
                    assert_eq!(key, value);
                    times[key as usize] += 1;
                });
                assert!(times.iter().all(|count| *count == 1), "{times:?}");
            }
        });
    }
}

#[test]
fn room_for_words_is_made_and_kept() {
    let room = amount(1000, 1000, 50);
    let map = Map::<RandomState>::with_capacity(room);
    let capacity = map.capacity();
    assert!(capacity >= room);
    (0..capacity as u64).for_each(|key| _ = map.insert(key, key));
    assert_eq!(map.capacity(), capacity);
    map.reserve(5 * capacity);
    assert!(map.capacity() >= 6 * capacity && map.len() == capacity);
    map.clear();
    assert!(map.is_empty() && map.capacity() == 0);
    map.insert(1, 1);
    assert!(map.capacity() >= 6 * capacity);
}

#[test]
fn words_are_values() {
    fn check<T: Word + PartialEq + Debug>(values: &[T]) {
        for value in values {
            assert_eq!(T::from_word(value.to_word()), *value);
            let map: RcuWordMap<T, T> = [(*value, *value)].into_iter().collect();
            assert_eq!(map.get(value), Some(*value));
            assert_eq!(format!("{map:?}"), format!("{{{value:?}: {value:?}}}"));
        }
    }
    check(&[u8::MIN, u8::MAX]);
    check(&[i8::MIN, -1, i8::MAX]);
    check(&[i32::MIN, -1, i32::MAX]);
    check(&[u64::MIN, u64::MAX]);
    check(&[i64::MIN, -1, i64::MAX]);
    check(&[usize::MAX, 0]);
    check(&['a', char::MAX]);
    check(&[false, true]);
    check(&[()]);
    check(&[0.5_f32, f32::MIN, f32::INFINITY]);
    check(&[0.5_f64, f64::MIN, -f64::INFINITY]);
    check(&[NonZeroU64::MIN, NonZeroU64::MAX]);
    check(&[NonZeroI8::MIN, NonZeroI8::MAX]);
    let map = RcuWordMap::<f64, u8>::from([(f64::NAN, 1), (0.0, 2), (-0.0, 3)]);
    assert_eq!((map.get(&f64::NAN), map.get(&0.0), map.get(&-0.0)), (Some(1), Some(2), Some(3)));
}
