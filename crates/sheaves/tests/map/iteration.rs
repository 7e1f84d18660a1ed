//! Iteration during changes and resizes.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::hash::RandomState;

use sheaves::map::RcuHashMap;
use sheaves::rcu::read;

use super::{Random, engines};

/// Keys below this stay in the map, with values that change.
const STAY: u64 = 500;
/// Keys below this are inserted and removed.
const KEYS: u64 = 20_000;
/// The capacity that the map reaches with all keys, and not with the permanent ones alone.
const LARGE: usize = 16_384;

fn fill(map: &RcuHashMap<u64, u64, RandomState>, keys: core::ops::Range<u64>) {
    for key in keys {
        map.insert(key, key, &read());
    }
}

#[test]
fn permanent_keys_are_returned_exactly_once_during_resizes() {
    let rounds = if engines::is_small() { 3 } else { 30 };
    let map = RcuHashMap::<u64, u64, RandomState>::new();
    fill(&map, 0..STAY);
    let (stop, resizes) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        // One thread makes the table grow and shrink repeatedly.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // These changes complete it: another thread may sleep over its part of a resize.
                while map.capacity() < LARGE {
                    for key in STAY..KEYS {
                        map.remove(&key, &read());
                        map.insert(key, key, &read());
                    }
                }
                for key in STAY..KEYS {
                    map.remove(&key, &read());
                }
                while map.capacity() >= LARGE {
                    for key in STAY..KEYS {
                        map.insert(key, key, &read());
                        map.remove(&key, &read());
                    }
                }
                resizes.fetch_add(2, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            let mut random = Random::new(3);
            while !stop.load(Ordering::Relaxed) {
                let key = random.below(STAY);
                let add = |value: Option<&u64>| value.map(|value| value + STAY);
                assert!(map.compute(key, add, &read()).is_some());
            }
        });
        let mut round = 0;
        while round < rounds || resizes.load(Ordering::Relaxed) < 4 {
            let mut times = [0; STAY as usize];
            let guard = read();
            for (at, (key, value)) in map.iter(&guard).enumerate() {
                if *key < STAY {
                    times[*key as usize] += 1;
                    assert_eq!(value % STAY, *key);
                }
                // Slowly, so that the table changes during the iteration.
                if at % 64 == 0 {
                    std::thread::yield_now();
                }
            }
            assert!(times.iter().all(|count| *count == 1), "{times:?}");
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn iterator_stays_with_its_table() {
    let map = RcuHashMap::<u64, u64, RandomState>::new();
    fill(&map, 0..1000);
    let guard = read();
    let mut all = map.iter(&guard);
    let mut seen: Vec<u64> = all.by_ref().take(100).map(|(key, _)| *key).collect();
    // The map grows by several tables; the iterator still returns everything that is left.
    fill(&map, 1000..50_000);
    seen.extend(all.map(|(key, _)| *key).filter(|key| *key < 1000));
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..1000));
}

/// One thread alone leaves a resize half done between two of its changes, and iterations do not
/// complete it.
#[test]
fn iteration_is_complete_at_every_stage_of_a_resize() {
    let keys = 64..if engines::is_small() { 600 } else { 3000 };
    let map = RcuHashMap::<u64, u64, RandomState>::new();
    fill(&map, 0..64);
    let check = |step: u64, change: &dyn Fn()| {
        let guard = read();
        let mut all = map.iter(&guard);
        let mut seen: Vec<u64> = all.by_ref().take(step as usize % 100).map(|it| *it.0).collect();
        change();
        seen.extend(all.map(|(key, _)| *key));
        seen.retain(|key| *key < 64);
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..64), "at step {step}");
    };
    for key in keys.clone() {
        check(key, &|| fill(&map, key..key + 1));
        let found = map.iter(&read()).fold((0, 0), |(count, sum), (key, _)| (count + 1, sum + key));
        assert_eq!(found, (key + 1, key * (key + 1) / 2));
    }
    let large = map.capacity();
    for key in keys.rev() {
        check(key, &|| assert!(map.remove(&key, &read()).is_some()));
        let found = map.iter(&read()).fold((0, 0), |(count, sum), (key, _)| (count + 1, sum + key));
        assert_eq!(found, (key, key * (key - 1) / 2));
    }
    assert!(map.capacity() < large);
}
