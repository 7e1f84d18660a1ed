//! Tests of children that inherit a map of words while another thread was changing it.

extern crate std;
use super::*;
use crate::map::alone::alone;
use crate::map::alone::child::child_ends;
use crate::map::tables::Chain;
use crate::map::tables::bucket::Place;

use core::hash::{BuildHasherDefault, Hasher};
use std::sync::mpsc::channel;

/// Keys of one chain.
#[derive(Default)]
struct One;

impl Hasher for One {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, _: &[u8]) {}
}

type Map = RcuWordMap<u64, u64, BuildHasherDefault<One>>;

/// Forks while another thread has locked the chain of all keys, and has done that to it.
fn fork_beside(entries: u64, change: impl Fn(&Chain<'_, Pair>) + Sync) {
    let map = Map::default();
    (0..entries).for_each(|key| _ = map.insert(key, key));
    let ((begin, has_begun), (end, is_over)) = (channel(), channel::<()>());
    let is_good = std::thread::scope(|scope| {
        let (map, change) = (&map, &change);
        scope.spawn(move || {
            let guard = read();
            let chain = map.tables.lock(map.tables.hash(&0_u64), &guard).unwrap();
            change(&chain);
            begin.send(()).unwrap();
            is_over.recv().unwrap();
        });
        has_begun.recv().unwrap();
        let is_good = child_ends(|| {
            let check = |count: u64| {
                assert!((0..count).all(|key| map.get(&key) == Some(key)));
                assert!(map.get(&count).is_none());
                assert_eq!(map.iter(&read()).count() as u64, count);
            };
            check(entries);
            (entries..entries + 20).for_each(|key| assert!(map.insert(key, key).is_none()));
            check(entries + 20);
            (entries..entries + 20).for_each(|key| assert_eq!(map.remove(&key), Some(key)));
            check(entries);
            map.retain(|_, _| false);
            check(0);
        });
        end.send(()).unwrap();
        is_good
    });
    assert!(is_good && (0..entries).all(|key| map.get(&key) == Some(key)));
}

#[test]
#[cfg_attr(miri, ignore = "forks")]
fn child_takes_over_the_chain_of_another_thread() {
    let _alone = alone();
    for entries in [1, 5, 6, 14] {
        fork_beside(entries, |_| ());
    }
}

/// A place is filled, and its tag not yet published: the entry is not there, for readers either.
#[test]
#[cfg_attr(miri, ignore = "forks")]
fn child_finds_no_entry_that_another_thread_was_filling() {
    let _alone = alone();
    for entries in [1, 5] {
        fork_beside(entries, |chain| {
            let first = chain.held.first;
            first.places[entries as usize].fill(&first.stamp, (entries, entries));
            assert!(chain.search(|words| words.0 == entries).is_none());
        });
    }
}
