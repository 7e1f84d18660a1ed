//! Tests of private items of `parts/depot`.

use core::alloc::Layout;

use sheaves_percpu::internal::Cursor;
use sheaves_percpu::slot_count;
use sheaves_sys::{clock, thread};

use super::{Depot, SOON_MS};
use crate::moves::registry;
use crate::parts::pool::{self, SHARDS};
use crate::parts::shape::Shape;
use crate::parts::sheaf_size::{EXCHANGES, EXCHANGES_LONG_MS, objects_max};
use crate::raw::{self, Options};
use crate::space::cache_id::CacheId;

/// The shape and the depot of a cache.
fn cache_of(size: usize) -> (Shape, Depot) {
    let layout = Layout::from_size_align(size, 8).unwrap();
    // The first cache of a process reserves the memory of sheaves.
    raw::Cache::new("starts", layout, Options::default()).unwrap().destroy().unwrap();
    let shape = Shape::new(layout).unwrap();
    let depot = Depot::new();
    depot.reset(&shape);
    (shape, depot)
}

/// The size of sheaves after many exchanges in a short time, but for the first ones.
fn size_after_exchanges(depot: &Depot, shape: &Shape) -> usize {
    for _ in 0..64 * EXCHANGES {
        depot.note_exchange(shape);
    }
    depot.sheaf_objects.get()
}

#[test]
fn sheaves_grow_while_exchanges_are_frequent() {
    let (shape, depot) = cache_of(64);
    let least = shape.sheaf_objects_min();
    assert_eq!(size_after_exchanges(&depot, &shape), least, "none is in use");
    let between = (least + shape.sheaf_objects) / 2;
    depot.count_refill(&shape, between);
    let size = objects_max(&shape, between, slot_count()).max(least);
    assert_eq!(size_after_exchanges(&depot, &shape), size);
    depot.count_refill(&shape, 2 * slot_count() * shape.sheaf_objects);
    assert_eq!(size_after_exchanges(&depot, &shape), shape.sheaf_objects);
    // It shrinks where exchanges are rare, not with every flush.
    depot.count_flush(&shape, 2 * slot_count() * shape.sheaf_objects);
    assert_eq!(size_after_exchanges(&depot, &shape), shape.sheaf_objects);
}

#[test]
fn a_sheaf_may_hold_what_is_in_use_unless_slots_are_many() {
    let (shape, _depot) = cache_of(64);
    let all = [(1, 100), (2, 100), (4, 63), (32, 7), (64, 3), (1000, 1)];
    for (slots, objects) in all {
        assert_eq!(objects_max(&shape, 100, slots), objects, "{slots} slots");
    }
    assert_eq!(objects_max(&shape, 1_000_000, 64), 7812, "no more than are in use in all slots");
    assert_eq!(objects_max(&shape, 0, 1), 1);
    let large = Shape::alone(1 << 20);
    assert_eq!([1, 2, 64].map(|slots| objects_max(&large, 16, slots)), [8, 4, 1]);
    assert_eq!(objects_max(&large, 1000, 2), 250);
}

#[test]
fn what_a_cache_before_it_has_exchanged_does_not_count() {
    let (shape, depot) = cache_of(16384);
    for _ in 0..2 * EXCHANGES - 1 {
        depot.note_exchange(&shape);
    }
    depot.reset(&shape);
    depot.note_exchange(&shape);
    assert_eq!(depot.empty_slabs_kept(), 0);
}

#[test]
fn a_cache_of_large_objects_has_sheaves_while_it_is_used_often() {
    let (shape, depot) = cache_of(16384);
    assert_eq!(depot.empty_sheaf(), None);
    assert_eq!(depot.empty_slabs_kept(), 0);
    assert_eq!(size_after_exchanges(&depot, &shape), 1);
    let sheaf = depot.empty_sheaf().unwrap();
    assert_eq!(depot.refit(sheaf), sheaf);
    assert_eq!(depot.empty_slabs_kept(), 1);
    thread::sleep_ns((EXCHANGES_LONG_MS as u64 + 100) * 1_000_000);
    for _ in 0..EXCHANGES {
        depot.note_exchange(&shape);
    }
    assert_eq!(depot.refit(sheaf), Cursor::VACANT);
    assert_eq!(depot.empty_slabs_kept(), 0);
}

/// Two objects need two sheaves of one object, and then the sheaf that is in use is never empty
/// when it is exchanged.
#[test]
fn few_objects_that_go_round_come_to_fit_a_sheaf() {
    const ROUNDS: usize = 10;
    let layout = Layout::new::<[u8; 16384]>();
    let cache = raw::Cache::new("round", layout, Options::default()).unwrap();
    let round = || {
        for object in [cache.alloc().unwrap(), cache.alloc().unwrap()] {
            // SAFETY: from this cache, not used after.
            unsafe { cache.free(object) };
        }
    };
    let is_it = |id: CacheId| (id.shape().name() == "round").then_some(id);
    let id = registry::map_existing(is_it).flatten().next().unwrap();
    if objects_max(id.shape(), 2, slot_count()) < 2 {
        return; // With 128 slots each sheaf holds one.
    }
    let depot = &id.descriptor().depot;
    let exchanges = || depot.shards.iter().map(|shard| shard.exchanges.get()).sum::<usize>();
    (0..100 * EXCHANGES).for_each(|_| round());
    // Shards count up to `EXCHANGES`, and one round exchanges fewer.
    let exchanged = |_| {
        let before = exchanges();
        round();
        (exchanges() + SHARDS * EXCHANGES - before) % EXCHANGES
    };
    // A thread that comes to another slot has to fill that.
    let count = (0..ROUNDS).map(exchanged).sum::<usize>();
    assert!(count < ROUNDS, "{count} exchanges");
    cache.destroy().unwrap();
}

#[test]
fn what_was_there_all_the_time_is_unused() {
    let (shape, depot) = cache_of(64);
    let objects = shape.sheaf_objects;
    let put = || {
        let cursor = pool::format(pool::take_empty().unwrap(), objects);
        assert!(depot.put_full(&shape, cursor.sheaf().full()));
    };
    let take = || pool::put_empty(depot.take_full().unwrap().sheaf());
    (0..3).for_each(|_| put());
    assert_eq!(depot.tick(&shape), 0, "they were not there at the tick before");
    take();
    put();
    assert_eq!(depot.tick(&shape), 2 * objects, "one was needed");
    assert_eq!(depot.tick(&shape), 3 * objects);
    (0..3).for_each(|_| take());
    assert_eq!(depot.tick(&shape), 0);
    assert!(!depot.was_used(0));
    depot.note_exchange(&shape);
    assert!(depot.was_used(0) && !depot.was_used(0));
    assert!(depot.was_used(1) && !depot.was_used(1));
}

/// Fills the depot until it refuses a sheaf; returns how many it took.
fn fill(depot: &Depot, shape: &Shape) -> usize {
    let mut count = 0;
    loop {
        let cursor = pool::format(pool::take_empty().unwrap(), shape.sheaf_objects);
        if !depot.put_full(shape, cursor.sheaf().full()) {
            pool::put_empty(cursor.sheaf());
            return count;
        }
        count += 1;
    }
}

fn empty(depot: &Depot) {
    while let Some(cursor) = depot.take_full() {
        pool::put_empty(cursor.sheaf());
    }
}

#[test]
fn the_limit_rises_where_a_refill_comes_soon_after_an_overflow() {
    let (shape, depot) = cache_of(1024);
    let start = fill(&depot, &shape);
    empty(&depot);
    thread::sleep_ns((SOON_MS as u64 + 100) * 1_000_000);
    depot.missed(&shape);
    let begin_ms = clock::coarse_ms();
    assert_eq!(fill(&depot, &shape), start, "the overflow was long ago");
    empty(&depot);
    depot.missed(&shape);
    let higher = fill(&depot, &shape);
    empty(&depot);
    assert!(higher > start || clock::coarse_ms() - begin_ms > SOON_MS as u64);
}
