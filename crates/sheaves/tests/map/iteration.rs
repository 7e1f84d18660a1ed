//! Iteration during changes and resizes.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::hash::RandomState;
use std::thread;
use std::time::Instant;

use sheaves::map::RcuHashMap;
use sheaves::rcu::{Cookie, read};

use super::{Random, amount, engines};

/// Keys below this stay in the map, with values that change.
const STAY: u64 = if cfg!(miri) { 5 } else { 500 };
/// Keys below this are inserted and removed.
const KEYS: u64 = if cfg!(miri) { 200 } else { 20_000 };
/// The capacity that the map reaches with all keys, and not with the permanent ones alone.
const LARGE: usize = if cfg!(miri) { 128 } else { 16_384 };

fn fill(map: &RcuHashMap<u64, u64, RandomState>, keys: core::ops::Range<u64>) {
    for key in keys {
        map.insert(key, key, &read());
    }
}

#[test]
fn permanent_keys_are_returned_exactly_once_during_resizes() {
    let rounds = amount(30, 3, 1);
    let map = RcuHashMap::<u64, u64, RandomState>::default();
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
                if at % 512 == 0 {
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
    let map = RcuHashMap::<u64, u64, RandomState>::default();
    fill(&map, 0..2 * STAY);
    let guard = read();
    let mut all = map.iter(&guard);
    let mut seen: Vec<u64> = all.by_ref().take(STAY as usize / 5).map(|(key, _)| *key).collect();
    // The map grows by several tables; the iterator still returns everything that is left.
    fill(&map, 2 * STAY..KEYS / 2 * 5);
    seen.extend(all.map(|(key, _)| *key).filter(|key| *key < 2 * STAY));
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..2 * STAY));
}

/// One thread alone leaves a resize half done between two of its changes, and iterations do not
/// complete it.
#[test]
fn iteration_is_complete_at_every_stage_of_a_resize() {
    let keys = 64..if engines::is_small() { 600 } else { 3000 };
    let map = RcuHashMap::<u64, u64, RandomState>::default();
    fill(&map, 0..64);
    let check = |step: u64, change: &dyn Fn()| {
        let guard = read();
        let mut all = map.iter(&guard);
        let mut seen: Vec<u64> = all.by_ref().take(step as usize % 100).map(|it| *it.0).collect();
        change();
        all.for_each(|it| seen.push(*it.0));
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

/// Other tests have readers, too, for which the grace period also waits: so a call takes long.
#[test]
fn grace_periods_end_during_retain() {
    let map = RcuHashMap::<u64, u64, RandomState>::default();
    let (begin, mut has_passed) = (Instant::now(), false);
    while !has_passed {
        assert!(begin.elapsed() < Duration::from_secs(20), "no grace period has ended");
        fill(&map, 0..5000);
        let (mut cookie, mut seen) = (None, 0);
        map.retain(|key, _| {
            seen += 1;
            has_passed |= cookie.get_or_insert_with(Cookie::start_poll).poll();
            if !has_passed {
                thread::sleep(Duration::from_millis(1));
            }
            key % 2 == 0
        });
        assert_eq!((seen, map.len()), (5000, 2500));
        map.clear();
        assert!(map.is_empty());
    }
}

/// The table has another size in each batch.
#[test]
fn retain_sees_every_key_during_resizes() {
    let map = RcuHashMap::<u64, u64, RandomState>::default();
    fill(&map, 0..KEYS);
    for step in [1, 7, 30] {
        let (mut times, mut calls, mut is_large) = (vec![0; STAY as usize], 0_u64, true);
        map.retain(|key, _| {
            if *key < STAY {
                times[*key as usize] += 1;
            }
            calls += 1;
            if calls % (STAY * step) == 0 && calls < 40 * STAY * step {
                // It resizes by itself: one thread, in a batch.
                is_large = !is_large;
                for key in STAY..KEYS {
                    if is_large {
                        map.insert(key, key, &read())
                    } else {
                        map.remove(&key, &read())
                    };
                }
            }
            true
        });
        assert!(times.iter().all(|count| *count >= 1), "{step}: {times:?}");
        assert!(calls > STAY * step, "it was resized");
        fill(&map, STAY..KEYS);
    }
}
