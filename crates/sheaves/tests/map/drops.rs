//! Every key and every value is dropped once, and none before its grace period has ended.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::hash::RandomState;
use std::sync::{Arc, Barrier, LazyLock};
use std::time::Instant;

use sheaves::map::{RcuHashMap, RcuWordMap};
use sheaves::rcu::defer::barrier;
use sheaves::rcu::{read, synchronize};

use super::{Random, Spread, amount, engines};

/// Counts its drops, in an entry of its own.
struct Counted<'a> {
    drops: &'a [AtomicUsize],
    number: usize,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.drops[self.number].fetch_add(1, Ordering::Relaxed);
    }
}

/// Entries of a map with many.
const MANY: usize = if cfg!(miri) { 120 } else { 3000 };

fn accounts(count: usize) -> Vec<AtomicUsize> {
    (0..count).map(|_| AtomicUsize::new(0)).collect()
}

fn assert_all_once(drops: &[AtomicUsize], made: usize) {
    for (number, count) in drops.iter().enumerate() {
        let expected = usize::from(number < made);
        assert_eq!(count.load(Ordering::Relaxed), expected, "value {number}");
    }
}

#[test]
fn each_value_is_dropped_once() {
    let count = amount(100_000, 5000, 100);
    let drops = accounts(count);
    let map = RcuHashMap::<u64, Counted<'_>, Spread<64>>::scoped(0, Spread::default());
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (map, made, drops) = (&map, &made, &drops);
            scope.spawn(move || {
                let mut random = Random::new(thread + 1);
                loop {
                    let number = made.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let value = Counted { drops, number };
                    let guard = read();
                    let key = random.below(3000);
                    let _ = match random.below(4) {
                        0 => map.compute(key, |_| Some(value), &guard),
                        1 => Some(map.get_or_insert_with(key, || value, &guard)),
                        _ => map.insert(key, value, &guard),
                    };
                    if let Some(value) = map.remove(&random.below(3000), &guard) {
                        // Readable while the guard lasts.
                        assert_eq!(drops[value.number].load(Ordering::Relaxed), 0);
                    }
                }
            });
        }
    });
    let guard = read();
    let in_map = map.iter(&guard).inspect(|(_, value)| {
        assert_eq!(drops[value.number].load(Ordering::Relaxed), 0);
    });
    assert_eq!(in_map.count(), map.len());
    drop(guard);
    // Removed values are dropped also without the end of the map.
    map.clear();
    while !map.reclaim() {
        synchronize().unwrap();
    }
    assert_all_once(&drops, count);
    drop(map);
    assert_all_once(&drops, count);
}

#[test]
fn the_map_drops_what_is_in_it_and_what_waits() {
    let drops = accounts(MANY);
    for entries in [0, 1, 7, 100, MANY] {
        let map = RcuHashMap::<u64, Counted<'_>, _>::scoped(0, RandomState::new());
        let base = &drops[..entries];
        for number in 0..entries {
            map.insert(number as u64 % 1000, Counted { drops: base, number }, &read());
            if number % 3 == 0 {
                map.remove(&(number as u64 % 1000), &read());
            }
        }
        drop(map);
        assert_all_once(base, entries);
        base.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

#[test]
fn nothing_is_dropped_during_a_read_section() {
    const KEYS: usize = MANY / 6;
    let drops = accounts(2 * KEYS);
    let map = RcuHashMap::<u64, Counted<'_>, _>::scoped(0, RandomState::new());
    for number in 0..KEYS {
        map.insert(number as u64, Counted { drops: &drops, number }, &read());
    }
    let (ready, go) = (Barrier::new(2), Barrier::new(2));
    let (map, drops, ready, go) = (&map, &drops, &ready, &go);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let guard = read();
            let seen: Vec<_> = (0..KEYS as u64).filter_map(|key| map.get(&key, &guard)).collect();
            ready.wait();
            go.wait();
            for value in &seen {
                assert_eq!(drops[value.number].load(Ordering::Relaxed), 0);
            }
            assert_eq!(seen.len(), KEYS);
            drop(guard);
        });
        ready.wait();
        for number in KEYS..2 * KEYS {
            map.insert((number - KEYS) as u64, Counted { drops, number }, &read());
        }
        for _ in 0..10 {
            assert!(!map.reclaim());
        }
        go.wait();
    });
    while !map.reclaim() {
        synchronize().unwrap();
    }
    for (number, count) in drops.iter().enumerate() {
        assert_eq!(count.load(Ordering::Relaxed), usize::from(number < KEYS));
    }
}

#[test]
fn keys_are_dropped_too() {
    let drops = accounts(400);
    /// Equal by number modulo 100.
    struct Key<'a>(Counted<'a>);
    impl PartialEq for Key<'_> {
        fn eq(&self, other: &Key<'_>) -> bool {
            self.0.number % 100 == other.0.number % 100
        }
    }
    impl Eq for Key<'_> {}
    impl core::hash::Hash for Key<'_> {
        fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
            (self.0.number % 100).hash(state);
        }
    }
    let map = RcuHashMap::<Key<'_>, u8, _>::scoped(0, RandomState::new());
    for number in 0..400 {
        map.insert(Key(Counted { drops: &drops, number }), 0, &read());
    }
    assert_eq!(map.len(), 100);
    drop(map);
    assert_all_once(&drops, 400);
}

/// One with a map removes its first key when it is dropped.
struct Remover(Option<&'static RcuHashMap<u64, Remover, RandomState>>);

impl Drop for Remover {
    fn drop(&mut self) {
        if let Some(map) = self.0 {
            map.remove(&1, &read());
        }
    }
}

#[test]
fn values_that_are_not_used_may_change_the_map() {
    static MAP: LazyLock<RcuHashMap<u64, Remover, RandomState>> =
        LazyLock::new(RcuHashMap::default);
    let map = &*MAP;
    let changes: [fn(Remover); 6] = [
        |value| _ = MAP.update_or_insert(0, |_| Remover(None), value, &read()),
        |value| _ = MAP.update_or_insert_with(2, |_| value, || Remover(None), &read()),
        |value| _ = MAP.update(3, |_| value, &read()),
        |value| _ = MAP.get_or_insert(0, value, &read()),
        |value| _ = MAP.get_or_insert_with(0, || value, &read()),
        |value| _ = MAP.try_insert(0, value, &read()),
    ];
    map.insert(0, Remover(None), &read());
    for (number, change) in changes.into_iter().enumerate() {
        map.insert(1, Remover(None), &read());
        change(Remover(Some(map)));
        assert!(!map.contains_key(&1), "{number}");
    }
}

/// The library drops them, also if the map is not used any more, and after its end.
#[test]
fn removed_values_of_an_idle_map_are_dropped() {
    let count = if engines::is_small() { 100 } else { 1000 };
    let map = RcuHashMap::<u64, Arc<()>, RandomState>::default();
    let value = Arc::new(());
    let fill = || {
        for key in 0..count {
            map.insert(key, value.clone(), &read());
        }
    };
    fill();
    fill();
    for key in 0..count {
        map.remove(&key, &read());
    }
    let begin = Instant::now();
    while Arc::strong_count(&value) > 1 {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{} are left",
            Arc::strong_count(&value)
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    fill();
    let guard = read();
    map.clear();
    drop(map);
    assert_eq!(Arc::strong_count(&value) as u64, count + 1, "dropped during a read section");
    drop(guard);
    barrier().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}

/// What is cleared is freed later than what it borrowed, unread.
#[test]
fn cleared_entries_do_not_need_what_they_borrow() {
    let text = String::from("text");
    let map = RcuHashMap::<u64, &str, _>::scoped(1000, RandomState::new());
    map.insert(1, &text, &read());
    map.clear();
    drop(map);
    drop(text);
    barrier().unwrap();
}

/// Iteration that takes the entries hands each to the caller, or drops it.
#[test]
fn entries_that_are_taken_out_are_dropped_once() {
    let drops = accounts(MANY);
    for (entries, taken) in
        [(0, 1), (1, 0), (1, 1), (MANY, 0), (MANY, MANY * 17 / 30), (MANY, MANY)]
    {
        let map = RcuHashMap::<u64, Counted<'_>, _>::scoped(0, RandomState::new());
        let base = &drops[..entries];
        for number in 0..entries {
            map.insert(number as u64, Counted { drops: base, number }, &read());
        }
        let mut all = map.into_iter();
        assert_eq!(all.len(), entries);
        let kept: Vec<_> = all.by_ref().take(taken).collect();
        assert!(kept.iter().all(|(key, value)| *key == value.number as u64));
        assert!(base.iter().all(|count| count.load(Ordering::Relaxed) == 0));
        drop(all);
        let dropped = base.iter().filter(|count| count.load(Ordering::Relaxed) == 1).count();
        assert_eq!(dropped, entries - kept.len());
        drop(kept);
        assert_all_once(base, entries);
        base.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
    let keys = MANY as u64 / 3;
    let numbers: RcuHashMap<u64, u64, RandomState> = (0..keys).map(|key| (key, key)).collect();
    assert_eq!(numbers.into_iter().map(|(key, _)| key).sum::<u64>(), keys * (keys - 1) / 2);
}

/// What a reader has held up for long is not dropped all at once.
#[test]
fn change_drops_few_values() {
    let count = amount(20_000, 1000, 200);
    let drops = accounts(2 * count);
    let dropped = || drops.iter().filter(|count| count.load(Ordering::Relaxed) == 1).count();
    let map = RcuHashMap::<u64, Counted<'_>, _>::scoped(0, RandomState::new());
    let insert = |number: usize| {
        map.insert(number as u64 % 8, Counted { drops: &drops, number }, &read());
    };
    let (ready, go) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = read();
            ready.wait();
            go.wait();
        });
        ready.wait();
        (0..count).for_each(insert);
        go.wait();
    });
    let mut before = dropped();
    for number in count..count + count / 20 {
        synchronize().unwrap();
        insert(number);
        let after = dropped();
        assert!(after - before <= 64, "{}", after - before);
        before = after;
    }
    assert!(before > count / 2, "{before}");
}

/// Removes another key of its map when it is dropped.
struct Chained(u64);

/// How many of their destructors run in each other now, and at most.
static NESTED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

static CHAINED: LazyLock<RcuHashMap<u64, Chained, RandomState>> =
    LazyLock::new(|| RcuHashMap::scoped(0, RandomState::new()));

impl Drop for Chained {
    fn drop(&mut self) {
        let [now, most] = &NESTED;
        most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        CHAINED.remove(&self.0, &read());
        now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// However many wait, the stack has room for those that run in each other.
#[test]
fn destructors_that_change_the_map_do_not_nest() {
    let count = amount(4000, 2000, 100) as u64;
    let insert = |key, other| _ = CHAINED.insert(key, Chained(other), &read());
    (0..count).for_each(|key| insert(key, key + count));
    (count..2 * count).for_each(|key| insert(key, u64::MAX));
    let guard = read();
    (0..count).for_each(|key| _ = CHAINED.remove(&key, &read()));
    drop(guard);
    while !CHAINED.is_empty() {
        synchronize().unwrap();
        (0..64).for_each(|key| insert(key, u64::MAX));
        (0..64).for_each(|key| _ = CHAINED.remove(&key, &read()));
    }
    let [now, most] = NESTED.each_ref().map(|number| number.load(Ordering::Relaxed));
    assert!(now == 0 && most <= 8, "{most}");
}

/// The bounds are those of a lock around the map of `std`.
#[test]
fn send_and_sync_are_exact() {
    trait Fallback {
        const IS: bool = false;
    }
    impl<T: ?Sized> Fallback for T {}
    struct Sends<T>(core::marker::PhantomData<T>);
    impl<T: Send> Sends<T> {
        const IS: bool = true;
    }
    struct Shares<T>(core::marker::PhantomData<T>);
    impl<T: Sync> Shares<T> {
        const IS: bool = true;
    }
    type Map<K, V> = RcuHashMap<K, V, RandomState>;
    /// `Send`, not `Sync`.
    type Celled = Cell<u8>;
    /// `Sync`, not `Send`.
    type Guarded = std::sync::MutexGuard<'static, u8>;
    let sends = [
        <Sends<Map<u8, u8>>>::IS,
        <Sends<Map<u8, Celled>>>::IS,
        <Sends<Map<u8, Guarded>>>::IS,
        <Sends<Map<Guarded, u8>>>::IS,
    ];
    let shares = [
        <Shares<Map<u8, u8>>>::IS,
        <Shares<Map<u8, Celled>>>::IS,
        <Shares<Map<u8, Guarded>>>::IS,
        <Shares<Map<Celled, u8>>>::IS,
    ];
    assert_eq!(sends, [true, true, false, false]);
    assert_eq!(shares, [true, false, false, false]);
    type Words<K, V> = RcuWordMap<K, V, RandomState>;
    let sends = [
        <Sends<Words<u8, Celled>>>::IS,
        <Sends<Words<u8, Guarded>>>::IS,
        <Sends<Words<Guarded, u8>>>::IS,
    ];
    // It copies what it has, and lends nothing.
    let shares = [
        <Shares<Words<u8, Celled>>>::IS,
        <Shares<Words<u8, Guarded>>>::IS,
        <Shares<Words<Guarded, u8>>>::IS,
    ];
    assert_eq!((sends, shares), ([true, false, false], [true, false, false]));
}
