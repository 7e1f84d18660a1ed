//! Tests of a series that is exchanged while threads use it.

extern crate std;
use crate::map::{RcuHashMap, alone::alone};

use core::sync::atomic::Ordering;
use std::hash::RandomState;
use std::sync::Arc;

use sheaves_rcu::defer::barrier;
use sheaves_rcu::read;

type Map = RcuHashMap<u64, Arc<()>, RandomState>;

/// A map whose table is being doubled, to at least as many buckets as are exchanged.
fn growing(value: &Arc<()>) -> Map {
    let map = Map::default();
    let mut keys = 0..;
    let guard = read();
    let is_growing =
        || map.tables.table().is_some_and(|table| table.is_moving() && table.buckets() > 64);
    while !is_growing() {
        map.insert(keys.next().unwrap(), Arc::clone(value), &guard);
    }
    map
}

/// Threads that move entries of a table that was exchanged end the resize there: it is not made the
/// map's, and what was in it is dropped once.
#[test]
fn resize_of_a_series_that_is_over_is_finished_there() {
    let _alone = alone();
    for is_moved in [false, true] {
        let value = Arc::new(());
        let map = growing(&value);
        let guard = read();
        let (table, entries) = (map.tables.table().unwrap(), map.len());
        assert_eq!(entries + 1, Arc::strong_count(&value));
        map.clear();
        assert!(map.is_empty() && map.tables.table().is_none() && table.len() == entries);
        if is_moved {
            // SAFETY: the guard lasts.
            let units = table.units(unsafe { table.next() }.unwrap());
            while table.moved.load(Ordering::Relaxed) < units {
                map.tables.help(table);
            }
        }
        map.insert(1, Arc::clone(&value), &guard);
        assert!(map.len() == 1 && map.iter(&guard).count() == 1);
        assert_eq!(Arc::strong_count(&value), entries + 2, "dropped during a read section");
        drop(guard);
        barrier().unwrap();
        assert_eq!(Arc::strong_count(&value), 2);
        assert_eq!(map.len(), 1);
    }
}

/// The end of the map does not depend on that of its earlier series, nor they on it.
#[test]
fn map_ends_before_its_series() {
    let _alone = alone();
    let value = Arc::new(());
    let map = growing(&value);
    let (guard, before) = (read(), Arc::strong_count(&value));
    map.clear();
    map.insert(1, Arc::clone(&value), &guard);
    drop(map);
    assert_eq!(Arc::strong_count(&value), before, "the later series alone");
    drop(guard);
    barrier().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}
