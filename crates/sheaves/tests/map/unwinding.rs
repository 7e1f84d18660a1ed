//! Destructors that use the map, and destructors that panic.

use core::hash::{BuildHasher, Hash, Hasher};
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::hash::RandomState;
use std::panic::catch_unwind;
use std::sync::mpsc;

use sheaves::map::RcuHashMap;
use sheaves::rcu::{read, synchronize};

use super::Spread;

/// A key that uses a map when it is dropped, if it has one.
#[derive(Clone)]
struct Using {
    number: u64,
    map: Option<&'static Used>,
}

#[derive(Default)]
struct Used {
    /// All keys are in one chain.
    map: RcuHashMap<Using, u64, Spread<0>>,
    /// Set when a key was dropped while its chain was locked.
    is_locked: AtomicBool,
}

impl Using {
    fn new(number: u64, map: &'static Used) -> Using {
        Using { number, map: Some(map) }
    }

    /// A key without a map, for entries that stay in the map.
    fn plain(number: u64) -> Using {
        Using { number, map: None }
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        let Some(used) = self.map else { return };
        // In another thread: if it blocks forever, this one does not.
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            used.map.insert(Using::plain(1000), 0, &read());
            let _ = done.send(());
        });
        if is_done.recv_timeout(Duration::from_secs(5)).is_err() {
            // Relaxed: read by this thread.
            used.is_locked.store(true, Ordering::Relaxed);
        }
    }
}

impl PartialEq for Using {
    fn eq(&self, other: &Using) -> bool {
        self.number == other.number
    }
}

impl Eq for Using {}

impl Hash for Using {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

/// Runs `work` on a map of its own; no key may be dropped under the lock.
fn drops_without_a_lock(work: impl FnOnce(&'static Used)) {
    let used: &'static Used = Box::leak(Box::default());
    let _ = catch_unwind(AssertUnwindSafe(|| work(used)));
    // Relaxed: stored by this thread.
    assert!(
        !used.is_locked.load(Ordering::Relaxed),
        "a key was dropped while its chain was locked"
    );
}

#[test]
fn a_key_that_is_not_inserted_is_dropped_without_the_lock() {
    drops_without_a_lock(|used| {
        used.map.compute(Using::new(1, used), |_| None, &read());
    });
}

#[test]
fn a_key_is_dropped_without_the_lock_when_its_value_is_not_made() {
    drops_without_a_lock(|used| {
        used.map.get_or_insert_with(Using::new(1, used), || panic!("no value"), &read());
    });
    drops_without_a_lock(|used| {
        used.map.compute(Using::new(1, used), |_| panic!("no value"), &read());
    });
}

#[test]
fn a_second_key_is_dropped_without_the_lock_when_its_value_is_not_made() {
    drops_without_a_lock(|used| {
        // The key that stays is not dropped: the map is leaked.
        used.map.insert(Using::new(2, used), 0, &read());
        used.map.compute(Using::new(2, used), |_| panic!("no value"), &read());
    });
}

/// Counts its drops; value number 0 panics.
struct Panicking {
    drops: &'static AtomicUsize,
    number: usize,
}

impl Drop for Panicking {
    fn drop(&mut self) {
        // Relaxed: one thread.
        self.drops.fetch_add(1, Ordering::Relaxed);
        assert!(self.number != 0, "a destructor that panics");
    }
}

/// In whatever chain the keys are: it would wait for itself in one of them.
#[test]
fn closure_that_changes_its_own_map_panics() {
    type Map = RcuHashMap<u64, u64, RandomState>;
    let (map, other) = (Map::default(), Map::default());
    map.reserve(1000);
    map.insert(1, 1, &read());
    let guard = read();
    let changes: [&dyn Fn(u64); 6] = [
        &|key| _ = map.insert(key, 0, &guard),
        &|key| _ = map.remove(&key, &guard),
        &|key| _ = map.get_or_insert_with(key + 100, || 0, &guard),
        &|key| _ = map.compute(key, |_| None, &guard),
        &|_| map.retain(|_, _| false),
        // Of a table that is large enough to be exchanged.
        &|_| map.clear(),
    ];
    for change in changes {
        for key in 0..20 {
            let nested = |_: Option<&u64>| {
                change(key);
                Some(0)
            };
            let result = catch_unwind(AssertUnwindSafe(|| map.compute(7, nested, &guard)));
            let text = *result.unwrap_err().downcast::<&str>().unwrap();
            assert!(text.contains("a closure changes the map that calls it"), "{text}");
            assert!(map.len() == 1 && map.get(&7, &guard).is_none());
        }
    }
    // Lookups may be used, and other maps; and later the map itself.
    let nested = |_: Option<&u64>| {
        other.insert(1, 2, &guard);
        other.compute(3, |_| map.get(&1, &guard).copied(), &guard).copied()
    };
    assert_eq!(map.compute(7, nested, &guard), Some(&1));
    assert_eq!((map.insert(7, 8, &guard), other.len()), (Some(&1), 2));
}

/// However many closures of other maps are around it.
#[test]
fn nested_closure_that_changes_its_own_map_panics() {
    type Map = RcuHashMap<u64, u64, RandomState>;
    fn nest(maps: &[Map], inside: &dyn Fn(&Map)) {
        let Some((map, others)) = maps.split_first() else { return };
        let guard = read();
        let nested = |_: Option<&u64>| {
            nest(others, inside);
            if others.is_empty() {
                inside(map);
            }
            None
        };
        map.compute(7, nested, &guard);
    }
    let is_refused = |map: &Map| {
        let change = AssertUnwindSafe(|| _ = map.insert(7, 8, &read()));
        catch_unwind(change).is_err_and(|text| text.is::<&str>())
    };
    let maps: [Map; 20] = core::array::from_fn(|_| Map::default());
    for count in 1..=maps.len() {
        nest(&maps[..count], &|map| assert!(is_refused(map)));
    }
}

const VALUES: usize = 20;
type Values = RcuHashMap<usize, Panicking, Spread<64>>;

/// Number of values that the end of a map drops.
fn dropped_by(end: fn(Values)) -> usize {
    let drops: &'static AtomicUsize = Box::leak(Box::default());
    let map = Values::scoped(0, Spread::default());
    for number in 0..VALUES {
        map.insert(number, Panicking { drops, number }, &read());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| end(map))).is_err());
    // Relaxed: one thread.
    drops.load(Ordering::Relaxed)
}

#[test]
fn destructor_that_panics_leaks_no_other_value() {
    assert_eq!(dropped_by(drop), VALUES, "in the map");
    let waiting = |map: Values| {
        map.clear();
        drop(map);
    };
    assert_eq!(dropped_by(waiting), VALUES, "waiting in the map");
    let reclaimed = |map: Values| {
        map.clear();
        while !map.reclaim() {
            synchronize().unwrap();
        }
    };
    assert_eq!(dropped_by(reclaimed), VALUES, "reclaimed");
    let taken_out = |map: Values| {
        map.remove(&0, &read());
        drop(map.into_iter());
    };
    assert_eq!(dropped_by(taken_out), VALUES, "taken out");
}

/// Puts every key into the last chain of a small table.
#[derive(Default)]
struct Last;

impl BuildHasher for Last {
    type Hasher = Last;
    fn build_hasher(&self) -> Last {
        Last
    }
}

impl Hasher for Last {
    fn finish(&self) -> u64 {
        let is_last = |hash: &u64| super::spread::spread(*hash) % 64 == 63;
        (0..).find(is_last).expect("one in 64 is")
    }

    fn write(&mut self, _bytes: &[u8]) {}
}

/// An iterator at its end is at the last bucket, to which another one is linked afterwards.
#[test]
fn finished_iterator_stays_at_its_end() {
    let map = RcuHashMap::<u64, u64, Last>::default();
    for key in 0..6 {
        map.insert(key, key, &read());
    }
    let guard = read();
    let mut iterator = map.iter(&guard);
    assert_eq!(iterator.by_ref().count(), 6);
    for key in 6..10 {
        map.insert(key, key, &guard);
        assert_eq!(iterator.next(), None);
    }
}
