//! Changes that depend on what is there, by several threads; collections.

use core::borrow::Borrow;
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;
use std::sync::Arc;

use sheaves::map::{RcuHashMap, RcuHashSet};
use sheaves::rcu::defer::barrier;
use sheaves::rcu::read;

use super::amount;

type Map<V> = RcuHashMap<u64, V, RandomState>;

const THREADS: u64 = 4;

fn in_threads(work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        let work = &work;
        (0..THREADS).for_each(|thread| _ = scope.spawn(move || work(thread)));
    });
}

fn count() -> u64 {
    amount(5000, 100, 20) as u64
}

#[test]
fn one_of_several_insertions_succeeds() {
    let (map, wins) = (Map::default(), AtomicU64::new(0));
    in_threads(|thread| {
        for key in 0..count() {
            let pinned = map.pin();
            match pinned.try_insert(key, thread) {
                Ok(value) => {
                    assert_eq!(*value, thread);
                    // Relaxed: read after the threads.
                    wins.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => assert!(error.not_inserted == thread && *error.current != thread),
            }
            assert_eq!(pinned.get(&key), Some(pinned.get_or_insert(key, 100)));
        }
    });
    assert_eq!((wins.into_inner(), map.len() as u64), (count(), count()));
}

#[test]
fn each_update_takes_effect() {
    let map = Map::from([(0, 0)]);
    in_threads(|_| {
        for _ in 0..count() {
            let guard = read();
            assert!(map.update(0, |value| value + 1, &guard).is_some());
            assert!(map.update(1, |value| value + 1, &guard).is_none());
        }
    });
    assert_eq!((map.pin().get(&0), map.len()), (Some(&(THREADS * count())), 1));
}

/// Each value is removed by one thread, and only if that may.
#[test]
fn each_value_is_removed_once() {
    let values: Vec<Arc<()>> = (0..count()).map(|_| Arc::new(())).collect();
    let map: Map<Arc<()>> = (0..).zip(values.iter().cloned()).collect();
    let removed = AtomicU64::new(0);
    in_threads(|thread| {
        for key in 0..count() {
            let pinned = map.pin();
            let result = pinned.remove_if(&key, |key, _| key % THREADS == thread);
            if let Ok(Some((found, value))) = result {
                assert!(*found == key && Arc::ptr_eq(value, &values[key as usize]));
                // Relaxed: read after the threads.
                removed.fetch_add(1, Ordering::Relaxed);
            }
            assert!(result.is_ok() || key % THREADS != thread);
        }
    });
    assert_eq!((removed.into_inner(), map.len()), (count(), 0));
    barrier().unwrap();
    assert!(values.iter().all(|value| Arc::strong_count(value) == 1));
}

#[derive(PartialEq, Eq, Hash)]
struct Name(String);

static CLONES: AtomicU64 = AtomicU64::new(0);

#[repr(transparent)]
#[derive(PartialEq, Eq, Hash)]
struct NameRef(str);

impl NameRef {
    fn new(text: &str) -> &NameRef {
        // SAFETY: a transparent wrapper.
        unsafe { &*(core::ptr::from_ref(text) as *const NameRef) }
    }
}

impl Borrow<NameRef> for Name {
    fn borrow(&self) -> &NameRef {
        NameRef::new(&self.0)
    }
}

impl ToOwned for NameRef {
    type Owned = Name;
    fn to_owned(&self) -> Name {
        CLONES.fetch_add(1, Ordering::Relaxed);
        Name(self.0.to_owned())
    }
}

#[test]
fn key_that_is_there_is_not_cloned() {
    let map: RcuHashMap<Name, u64> = RcuHashMap::with_capacity(100);
    let guard = read();
    for _ in 0..3 {
        assert_eq!(map.get_or_insert_ref(NameRef::new("a"), || 7, &guard), &7);
    }
    assert_eq!(CLONES.load(Ordering::Relaxed), 1);
    let (key, value) = map.remove_entry(NameRef::new("a"), &guard).unwrap();
    assert_eq!((key.0.as_str(), *value), ("a", 7));
}

#[test]
fn collections_become_maps_and_sets() {
    let map: Map<u64> = (0..count()).map(|key| (key, key * 2)).collect();
    let clone = map.clone();
    assert!(clone == map && clone.len() as u64 == count());
    clone.insert(1, 1, &read());
    assert!(clone != map);
    clone.remove(&1, &read());
    assert!(clone != map);
    assert!(map != clone);
    assert_eq!(map.pin().into_iter().count() as u64, count());
    let guard = read();
    assert_eq!(map.values(&guard).sum::<u64>(), 2 * map.keys(&guard).sum::<u64>());
    let text = String::from("borrowed");
    let scoped = RcuHashMap::scoped(0, RandomState::new());
    scoped.insert(text.as_str(), vec![text.as_str()], &guard);
    assert_eq!(scoped.clone(), scoped);
    let mut set: RcuHashSet<u64, RandomState> = (0..count()).collect();
    assert_eq!(set, map.keys(&guard).copied().collect());
    set.extend([0, count(), count()]);
    assert!(set.len() as u64 == count() + 1 && set.contains(&count()));
    set.retain(|value| value % 2 == 0);
    assert!(set.get(&2, &guard) == Some(&2) && set.take(&1, &guard).is_none());
    assert_eq!((set.take(&2, &guard), set.get(&2, &guard)), (Some(&2), None));
    set.clear();
    assert_eq!(set, RcuHashSet::from([]));
}
