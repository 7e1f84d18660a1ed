//! Tests of a resize that a thread does not finish.

extern crate std;
use super::*;
use crate::map::RcuHashMap;
use crate::map::address::{Address, entry_at};
use crate::map::alone::alone;
use crate::map::alone::child::child_ends;
use crate::map::entry::Entry;
use crate::map::tables::spread::spread;

use core::cell::{Cell, RefCell};
use core::hash::{BuildHasher, BuildHasherDefault, Hasher};
use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;

use sheaves_rcu::read;

#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    /// In tables of up to 256 buckets the number selects the chain.
    fn finish(&self) -> u64 {
        (self.0 << 16..).find(|hash| (spread(*hash) ^ self.0).is_multiple_of(256)).unwrap()
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!();
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

type Map = RcuHashMap<u64, u64, BuildHasherDefault<Itself>>;

/// A map whose table is being halved, with entries in both chains of the last unit.
fn halving() -> Map {
    let map = Map::default();
    let change = |key, is_new| {
        if is_new {
            map.insert(key, key, &read())
        } else {
            map.remove(&key, &read())
        };
    };
    (0..1000).for_each(|key| change(key, true));
    let _guard = read();
    let is_halving =
        || map.tables.table().is_some_and(|table| !table.next.load(Ordering::Relaxed).is_null());
    while is_halving() {
        change(0, true);
    }
    let buckets = map.tables.table().unwrap().buckets() as u64;
    for key in (0..1000).filter(|key| key % (buckets / 2) != buckets / 2 - 1) {
        if !is_halving() {
            change(key, false);
        }
    }
    assert!(is_halving());
    map
}

/// Uses the map in a child, where the thread is missing that has marked one chain of a unit.
fn use_map(map: &Map) {
    let mut model: BTreeMap<u64, u64> =
        map.iter(&read()).map(|(key, value)| (*key, *value)).collect();
    let check = |model: &BTreeMap<u64, u64>| {
        let all: BTreeMap<_, _> = map.iter(&read()).map(|(key, value)| (*key, *value)).collect();
        assert!(
            all == *model && model.iter().all(|(key, value)| map.get(key, &read()) == Some(value))
        );
    };
    let keys: std::vec::Vec<u64> = model.keys().copied().collect();
    for (number, key) in keys.into_iter().enumerate() {
        if number % 2 == 0 {
            assert_eq!(
                map.insert(key, number as u64, &read()).copied(),
                model.insert(key, number as u64)
            );
        } else {
            assert_eq!(map.remove(&key, &read()).copied(), model.remove(&key));
        }
        check(&model);
    }
    let capacity = map.capacity();
    for key in 0..3000 {
        map.insert(key, key, &read());
        model.insert(key, key);
    }
    check(&model);
    assert!(map.capacity() > capacity);
}

/// Hashes as `std` does, and counts.
struct Counting(Cell<usize>);

impl BuildHasher for Counting {
    type Hasher = std::hash::DefaultHasher;

    fn build_hasher(&self) -> std::hash::DefaultHasher {
        self.0.set(self.0.get() + 1);
        std::hash::DefaultHasher::new()
    }
}

/// Moves load no key, unless a table grows or shrinks across a size at which the hash bits in its
/// places are exhausted.
#[test]
#[cfg_attr(miri, ignore = "tables of half a million buckets")]
fn moves_hash_keys_once_in_sixteen_doublings() {
    const KEYS: usize = 2000;
    let _alone = alone();
    let map = RcuHashMap::with_hasher(Counting(Cell::new(0)));
    let hashes = || map.hasher().0.take();
    for key in 0..KEYS {
        map.insert(key, key, &read());
    }
    assert_eq!(hashes(), KEYS, "of the insertions");
    let halve = || {
        let _guard = read();
        let table = map.tables.table().unwrap();
        map.tables.start(table, table.buckets() / 2);
        while map.tables.is_current(table) {
            map.tables.help(table);
        }
    };
    let check = |buckets, rounds| {
        assert_eq!(map.tables.table().unwrap().buckets(), buckets);
        assert_eq!(hashes(), KEYS * rounds, "{buckets} buckets");
        assert!((0..KEYS).all(|key| map.get(&key, &read()) == Some(&key)), "{buckets} buckets");
        assert_eq!(hashes(), KEYS, "of the lookups");
    };
    let most = BUCKETS_MIN << 15;
    map.reserve(most * 4 - KEYS);
    check(most, 0);
    map.reserve(most * 4 - KEYS + 1);
    check(most * 2, 1);
    halve();
    check(most, 1);
    halve();
    check(most / 2, 0);
}

/// A move clears what is in the memory of a new table, and the end of the map what no move has.
#[test]
fn new_tables_need_no_zeros() {
    let _alone = alone();
    for end in 33..500 {
        for buckets in [16, 32, 64, 128] {
            let layout = core::alloc::Layout::array::<[u64; 8]>(buckets + 1).unwrap();
            let layout = layout.align_to(64).unwrap();
            let block = sheaves_heap::alloc_layout(layout);
            // All places are occupied, and no chain is marked as moved.
            // SAFETY: it has that many bytes.
            unsafe { block.write_bytes(0xA0, layout.size()) };
            // SAFETY: from above.
            unsafe { sheaves_heap::dealloc_layout(block, layout) };
        }
        let map = Map::default();
        for key in 0..end {
            map.insert(key, key, &read());
        }
        assert!((0..end).all(|key| map.contains_key(&key)) && !map.contains_key(&end));
        assert_eq!(map.iter(&read()).count(), map.len());
    }
}

/// A table that is outgrown while a thread delays its resize must continue to grow.
#[test]
fn table_that_is_resized_late_still_becomes_large_enough() {
    let _alone = alone();
    let map = Map::default();
    let insert_all = |keys: Range<u64>| keys.for_each(|key| _ = map.insert(key, key, &read()));
    insert_all(0..64);
    let guard = read();
    let table = map.tables.table().unwrap();
    map.tables.start(table, table.buckets() * 2);
    // SAFETY: the guard lasts.
    let next = unsafe { table.next() }.unwrap();
    // Relaxed: this thread's. It stands for one that sleeps now.
    let first = table.claimed.fetch_add(UNITS, Ordering::Relaxed);
    insert_all(64..5000);
    assert!(map.tables.is_current(table) && map.capacity() < 1000, "its units have not moved");
    let units = first..(first + UNITS).min(table.units(next));
    let moved = units.filter(|unit| map.tables.move_unit(table, next, *unit)).count();
    map.tables.count_moved(table, next, moved);
    // Replacing a value does not lengthen a chain.
    for _ in 0..20 {
        insert_all(0..5000);
    }
    assert!(map.capacity() >= map.len(), "{} for {}", map.capacity(), map.len());
    assert!((0..5000).all(|key| map.get(&key, &guard) == Some(&key)));
}

#[test]
fn room_is_made_where_a_table_is_being_halved() {
    let _alone = alone();
    let map = halving();
    let capacity = map.capacity();
    map.reserve(capacity - map.len());
    let _guard = read();
    assert!(map.capacity() == capacity && !map.tables.table().unwrap().is_moving());
}

/// Forks while another thread is moving the last unit of a table that is being halved. It has
/// copied that many entries or, without a number, all of them, and has marked the first chain.
fn fork_during_a_move(copied: Option<usize>) {
    let map: &'static Map = std::boxed::Box::leak(std::boxed::Box::new(halving()));
    let ((begin, has_begun), (end, is_over)) = (channel(), channel::<()>());
    let other = std::thread::spawn(move || {
        let _guard = read();
        let old = map.tables.table().unwrap();
        // SAFETY: the guard lasts.
        let new = unsafe { old.next() }.unwrap();
        let (units, unit) = (old.units(new), old.units(new) - 1);
        let mut chains = old.chains(unit, units);
        let [low, high] = [(); 2].map(|()| chains.next().unwrap().lock().unwrap().0);
        let (mut word, mut count) = (0, 0);
        // SAFETY: no other thread reaches it.
        unsafe { new.clear(unit, units) };
        let target = new.chains(unit, units).next().unwrap();
        let pause = || {
            begin.send(()).unwrap();
            is_over.recv().unwrap();
        };
        let mut copy = |entry: *mut Entry<u64, u64>, tag| {
            // SAFETY: the guard lasts.
            let hash = map.tables.hash(&unsafe { (*entry_at(entry)).key });
            let entry =
                <Address<_, _> as Rehash<BuildHasherDefault<Itself>>>::with_hash(entry, hash, new);
            // SAFETY: the guard lasts, and no other thread reaches the chain.
            unsafe { target.add(&mut word, tag, entry) };
            count += 1;
            if copied == Some(count) {
                target.word.publish(word);
                pause();
            }
        };
        for held in [&low, &high] {
            // SAFETY: the guard lasts, and the chain is locked.
            unsafe { held.first.for_each(held.word, &mut copy) };
        }
        assert!(count > 6, "entries in both, and an overflow bucket");
        target.word.publish(word);
        // SAFETY: as `move_unit` does.
        unsafe { low.mark() };
        if copied.is_none() {
            pause();
        }
        // SAFETY: likewise.
        unsafe { high.mark() };
    });
    has_begun.recv().unwrap();
    // SAFETY: this process waits for its children, whatever disposition it has inherited.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let entries: std::vec::Vec<u64> = map.iter(&read()).map(|(key, _)| *key).collect();
    let uses = child_ends(|| use_map(map));
    // SAFETY: the child does not use the map any more.
    let drops = child_ends(|| drop(unsafe { core::ptr::from_ref(map).read() }));
    let clears = child_ends(|| {
        map.clear();
        assert!(map.is_empty() && map.iter(&read()).next().is_none());
        entries.iter().for_each(|key| _ = map.insert(*key, *key, &read()));
        sheaves_rcu::defer::barrier().unwrap();
        assert_eq!(map.iter(&read()).count(), entries.len());
    });
    end.send(()).unwrap();
    other.join().unwrap();
    assert!(uses && drops && clears, "{copied:?}: {uses} {drops} {clears}");
}

#[test]
fn child_marks_the_second_chain_of_a_unit() {
    let _alone = alone();
    fork_during_a_move(None);
}

/// Entries that the other thread has copied are copied again, and are in the map once.
#[test]
fn child_moves_a_unit_again_that_another_thread_was_moving() {
    let _alone = alone();
    for copied in [1, 3, 7] {
        fork_during_a_move(Some(copied));
    }
}

std::thread_local! {
    /// Called before this thread hashes a key.
    static BEFORE_HASH: RefCell<std::boxed::Box<dyn FnMut()>> =
        RefCell::new(std::boxed::Box::new(|| ()));
}

/// Even keys have one hash, and odd ones another.
struct TwoHashes([u64; 2]);
struct OneOf([u64; 2], u64);

impl BuildHasher for TwoHashes {
    type Hasher = OneOf;

    fn build_hasher(&self) -> OneOf {
        BEFORE_HASH.with_borrow_mut(|before| before());
        OneOf(self.0, 0)
    }
}

impl Hasher for OneOf {
    fn finish(&self) -> u64 {
        self.0[self.1 as usize % 2]
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!();
    }

    fn write_u64(&mut self, number: u64) {
        self.1 = number;
    }
}

/// Forks while another thread grows a table whose hash bits are exhausted, and is about to hash a
/// key of its unit.
fn fork_during_a_move_that_hashes(hashes: usize) {
    const KEYS: u64 = 20;
    const BUCKETS: usize = BUCKETS_MIN << 15;
    let hash_to =
        |bucket| (0..).find(|hash| spread(*hash) as usize % (2 * BUCKETS) == bucket).unwrap();
    let map = RcuHashMap::with_hasher(TwoHashes([hash_to(5), hash_to(5 + BUCKETS)]));
    map.reserve(BUCKETS * 4);
    (0..KEYS).for_each(|key| _ = map.insert(key, key, &read()));
    let check = |buckets| {
        assert_eq!(map.tables.table().unwrap().buckets(), buckets);
        assert!((0..KEYS).all(|key| map.get(&key, &read()) == Some(&key)));
        assert_eq!(map.iter(&read()).count(), map.len());
    };
    let ((begin, has_begun), (end, is_over)) = (channel(), channel::<()>());
    let mut count = 0;
    let pause = move || {
        count += 1;
        if count == hashes {
            begin.send(()).unwrap();
            is_over.recv().unwrap();
        }
    };
    let is_good = std::thread::scope(|scope| {
        scope.spawn(|| {
            BEFORE_HASH.set(std::boxed::Box::new(pause));
            map.reserve(BUCKETS * 4 - map.len() + 1);
        });
        has_begun.recv().unwrap();
        // SAFETY: this process waits for its children, whatever disposition it has inherited.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let is_good = child_ends(|| {
            check(BUCKETS);
            assert_eq!(map.insert(0, KEYS, &read()), Some(&0));
            assert_eq!(map.remove(&1, &read()), Some(&1));
            let _guard = read();
            let table = map.tables.table().unwrap();
            while map.tables.is_current(table) {
                map.tables.help(table);
            }
            assert_eq!((map.get(&0, &read()), map.get(&1, &read())), (Some(&KEYS), None));
            assert_eq!(map.insert(0, 0, &read()), Some(&KEYS));
            assert_eq!(map.insert(1, 1, &read()), None);
            check(2 * BUCKETS);
        });
        end.send(()).unwrap();
        is_good
    });
    check(2 * BUCKETS);
    assert!(is_good, "{hashes}");
}

#[test]
#[cfg_attr(miri, ignore = "forks, and tables of half a million buckets")]
fn child_moves_a_unit_again_whose_keys_another_thread_was_hashing() {
    let _alone = alone();
    for hashes in [1, 2, 20] {
        fork_during_a_move_that_hashes(hashes);
    }
}
