//! Resizes whose last unit is moved late.

use core::cell::Cell;
use core::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::mpsc;

use sheaves::map::RcuHashMap;
use sheaves::rcu::read;

use super::{Itself, engines};

/// No key.
const NONE: u64 = u64::MAX;
/// The key whose chain is being moved by a thread that waits.
static HELD: AtomicU64 = AtomicU64::new(NONE);
/// Chains of the table whose resize is delayed: keys of one chain are equal modulo this.
const CHAINS: u64 = 8;

thread_local! {
    /// Hashes that this thread makes before it waits in the next one, if it waits.
    static BEFORE_WAIT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A key whose chain it chooses, and whose hashing can be delayed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(u64);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let before = BEFORE_WAIT.get();
        BEFORE_WAIT.set(before.and_then(|count| count.checked_sub(1)));
        if before == Some(0) {
            HELD.store(self.0, Ordering::Release);
            while HELD.load(Ordering::Acquire) != NONE {
                std::thread::yield_now();
            }
        }
        state.write_u64(self.0);
    }
}

fn insert_all<S: BuildHasher>(map: &RcuHashMap<Key, u64, S>, keys: impl Iterator<Item = u64>) {
    keys.for_each(|key| {
        map.insert(Key(key), key, &read());
    });
}

/// A table that is outgrown while a thread delays its own resize must continue to grow.
#[test]
fn table_that_is_resized_late_still_becomes_large_enough() {
    let map = RcuHashMap::<Key, u64, BuildHasherDefault<Itself>>::default();
    let (done, is_done) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // An insertion hashes its key; the second hash of a key moves its chain.
            for key in 0.. {
                BEFORE_WAIT.set(Some(1));
                insert_all(&map, key..key + 1);
                if BEFORE_WAIT.get().is_none() {
                    break;
                }
            }
            done.send(()).expect("the test waits for this");
        });
        let held = loop {
            match HELD.load(Ordering::Acquire) {
                NONE => std::thread::yield_now(),
                key => break key,
            }
        };
        let others = || (1000..11_000_u64).filter(|key| key % CHAINS != held % CHAINS);
        insert_all(&map, others());
        let before = map.capacity();
        assert!(before < 1000, "the other thread has not moved its units: {before}");
        HELD.store(NONE, Ordering::Release);
        is_done.recv().expect("the other thread continues");
        // Replacing a value does not lengthen a chain.
        for _ in 0..20 {
            insert_all(&map, others());
        }
        assert!(map.capacity() >= map.len(), "{} for {}", map.capacity(), map.len());
        assert!(others().all(|key| map.get(&Key(key), &read()) == Some(&key)));
    });
}

/// A closure that runs for long delays changes of its own chain, and no others: these leave the
/// chain behind, and one that comes later moves it.
#[test]
fn chain_that_is_locked_for_long_is_moved_later() {
    // Few: their chains stay as long as the table that is being left.
    let keys = 8..if engines::is_small() { 300 } else { 2000 };
    let map = &RcuHashMap::<Key, u64, BuildHasherDefault<Itself>>::default();
    let others = || keys.clone().filter(|key| key % CHAINS != 0);
    let remove_others = || {
        others().for_each(|key| {
            map.remove(&Key(key), &read());
        });
    };
    let during = |change: &dyn Fn()| {
        let ((begin, has_begun), (end, is_over)) = (mpsc::channel(), mpsc::channel());
        std::thread::scope(|scope| {
            let slow = move |value: Option<&u64>| {
                begin.send(()).unwrap();
                is_over.recv_timeout(Duration::from_secs(60)).expect("the changes do not wait");
                value.map_or(Some(0), |value| Some(value + 1))
            };
            scope.spawn(move || map.compute(Key(0), slow, &read()).copied());
            has_begun.recv().unwrap();
            change();
            end.send(()).unwrap();
        });
    };
    during(&|| insert_all(map, others()));
    assert_eq!(map.iter(&read()).count(), map.len());
    // Any changes do, also replacements.
    for _ in 0..20 {
        insert_all(map, others());
    }
    let large = map.capacity();
    assert!(large >= map.len(), "{large} for {}", map.len());
    during(&remove_others);
    for _ in 0..2 {
        insert_all(map, others());
        remove_others();
    }
    assert!(map.capacity() < large);
    let guard = read();
    let all: Vec<_> = map.iter(&guard).map(|(key, value)| (key.0, *value)).collect();
    assert_eq!(all, [(0, 1)]);
}
