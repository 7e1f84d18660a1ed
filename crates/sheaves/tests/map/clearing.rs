//! `clear` beside lookups, iterations, changes, resizes and children of forks.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::mpsc::channel;

use sheaves::map::RcuHashMap;
use sheaves::rcu::defer::barrier;
use sheaves::rcu::read;

use super::{Random, engines};

/// More than a map has that keeps its table.
const MANY: u64 = 1000;

type Map<V> = RcuHashMap<u64, V, RandomState>;

fn filled(value: &Arc<()>) -> Map<Arc<()>> {
    let map = Map::default();
    (0..MANY).for_each(|key| _ = map.insert(key, Arc::clone(value), &read()));
    map
}

#[test]
fn readers_keep_what_they_have_found() {
    let value = Arc::new(());
    let map = filled(&value);
    let guard = read();
    let found = map.get(&7, &guard).unwrap();
    let mut all = map.iter(&guard);
    all.next().unwrap();
    map.clear();
    assert!(map.is_empty() && map.get(&7, &guard).is_none());
    assert!(map.iter(&guard).next().is_none() && map.capacity() == 0);
    assert!(map.remove(&7, &guard).is_none());
    let count = Arc::strong_count(found) as u64;
    assert_eq!((count, all.count() as u64), (MANY + 1, MANY - 1));
    drop(guard);
    barrier().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
    (0..MANY).for_each(|key| _ = map.insert(key, Arc::clone(&value), &read()));
    assert_eq!((map.len() as u64, map.iter(&read()).count() as u64), (MANY, MANY));
}

/// A change that has found its chain before the map was cleared happens before that.
#[test]
fn change_that_continues_is_cleared_too() {
    let value = Arc::new(());
    let map = &filled(&value);
    let ((begin, has_begun), (end, is_over)) = (channel(), channel::<()>());
    std::thread::scope(|scope| {
        let value = &value;
        let writer = scope.spawn(move || {
            let guard = read();
            let slow = |_: Option<&Arc<()>>| {
                begin.send(()).unwrap();
                is_over.recv().unwrap();
                Some(Arc::clone(value))
            };
            let new = map.compute(MANY, slow, &guard).unwrap();
            assert!(Arc::ptr_eq(new, value));
            assert!(map.get(&MANY, &guard).is_some_and(|other| !Arc::ptr_eq(other, value)));
            // The next change comes after that.
            assert!(map.remove(&1, &guard).is_none());
            map.insert(2, Arc::clone(value), &guard);
        });
        has_begun.recv().unwrap();
        // Waits for no chain.
        map.clear();
        assert!(map.insert(MANY, Arc::new(()), &read()).is_none());
        end.send(()).unwrap();
        writer.join().unwrap();
    });
    assert_eq!((map.len(), map.iter(&read()).count()), (2, 2));
    barrier().unwrap();
    assert_eq!(Arc::strong_count(&value), 2);
}

/// Counts its drops, and breaks its mark, so that a reader after that would detect it.
struct Marked<'a> {
    mark: u64,
    drops: &'a AtomicU64,
}

const MARK: u64 = 0x5AFE_5AFE_5AFE_5AFE;

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        assert_eq!(core::mem::replace(&mut self.mark, 0), MARK);
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

/// Each value is dropped once, readers find whole ones, and the number of entries is right in the
/// end.
#[test]
fn storm_of_changes_and_clears() {
    static DROPS: AtomicU64 = AtomicU64::new(0);
    DROPS.store(0, Ordering::Relaxed);
    let (map, made) = (Map::<Marked<'static>>::default(), AtomicU64::new(0));
    let (rounds, stop) = (if engines::is_small() { 10 } else { 200 }, AtomicBool::new(false));
    let (map, made, stop) = (&map, &made, &stop);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let mut random = Random::new(thread + 1);
                while !stop.load(Ordering::Relaxed) {
                    let (key, guard) = (random.below(5 * MANY), read());
                    let fresh = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        Marked { mark: MARK, drops: &DROPS }
                    };
                    let seen = match random.below(8) {
                        0 => map.remove(&key, &guard),
                        1 => map.get(&key, &guard),
                        2 => map.compute(key, |_| Some(fresh()), &guard),
                        3 => map.iter(&guard).nth(100).map(|(_, value)| value),
                        _ => map.insert(key, fresh(), &guard),
                    };
                    assert!(seen.is_none_or(|value| value.mark == MARK));
                }
            });
        }
        for _ in 0..rounds {
            let before = made.load(Ordering::Relaxed);
            while made.load(Ordering::Relaxed) < before + 2 * MANY {
                std::thread::yield_now();
            }
            map.clear();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let left = map.iter(&read()).count();
    assert_eq!(map.len(), left);
    barrier().unwrap();
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    assert_eq!(load(made), load(&DROPS) + left as u64);
    map.clear();
    barrier().unwrap();
    assert!(map.is_empty() && load(made) == load(&DROPS));
}
