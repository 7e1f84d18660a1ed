//! Tests of a resize that a thread does not finish.

extern crate std;
use super::*;
use crate::map::alone::alone;
use crate::map::spread::spread;

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::BTreeMap;
use std::sync::mpsc::channel;

use sheaves_rcu::read;

#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    /// In tables of up to 128 buckets the number selects the chain.
    fn finish(&self) -> u64 {
        (self.0 << 16..).find(|hash| (spread(*hash) ^ self.0).is_multiple_of(128)).unwrap()
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
    (0..500).for_each(|key| change(key, true));
    let _guard = read();
    let is_halving =
        || map.table().is_some_and(|table| !table.next.load(Ordering::Relaxed).is_null());
    while is_halving() {
        change(0, true);
    }
    let buckets = map.table().unwrap().buckets() as u64;
    for key in (0..500).filter(|key| key % (buckets / 2) != buckets / 2 - 1) {
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

#[test]
fn room_is_made_where_a_table_is_being_halved() {
    let _alone = alone();
    let map = halving();
    let capacity = map.capacity();
    map.reserve(capacity - map.len());
    let _guard = read();
    assert!(map.capacity() == capacity && !map.table().unwrap().is_moving());
}

#[test]
fn child_marks_the_second_chain_of_a_unit() {
    let _alone = alone();
    let map: &'static Map = std::boxed::Box::leak(std::boxed::Box::new(halving()));
    let ((begin, is_marked), (end, is_over)) = (channel(), channel::<()>());
    let other = std::thread::spawn(move || {
        let _guard = read();
        let old = map.table().unwrap();
        // SAFETY: the guard lasts.
        let new = unsafe { old.next() }.unwrap();
        let (units, unit) = (old.units(new), old.units(new) - 1);
        let (first, second) = old.chains(unit, units);
        let [low, high] = [first, second.unwrap()].map(|chain| chain.lock().unwrap());
        let (mut word, mut count) = (0, 0);
        let target = new.chains(unit, units).0;
        let mut copy = |entry: *mut Entry<u64, u64>| {
            // SAFETY: the guard lasts.
            let key = unsafe { (*entry).key };
            // SAFETY: the guard lasts, and no other thread reaches the chain.
            unsafe { target.add(&mut word, tag_of(map.hash(&key)), entry) };
            count += 1;
        };
        for held in [&low, &high] {
            // SAFETY: the guard lasts, and the chain is locked.
            unsafe { held.first.for_each(held.word, &mut copy) };
        }
        assert!(count > 6, "entries in both");
        target.publish(word);
        // SAFETY: as `move_unit` does.
        unsafe { low.mark() };
        begin.send(()).unwrap();
        is_over.recv().unwrap();
        // SAFETY: likewise.
        unsafe { high.mark() };
    });
    is_marked.recv().unwrap();
    // SAFETY: this process waits for its children, whatever disposition it has inherited.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: the child uses only what is tested, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child if it hangs.
        unsafe { libc::alarm(10) };
        let is_good =
            std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| use_map(map))).is_ok();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_good)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child only.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    end.send(()).unwrap();
    other.join().unwrap();
    assert_eq!(status, 0);
}
