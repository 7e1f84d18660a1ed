//! Nothing leaks: after a map is dropped, the heap has the same number of bytes out as before.
//!
//! Alone in its program, because the heap belongs to the process, and in a process of its own for
//! each configuration of the engine. The program itself allocates from libc.

mod configurations;

use std::hash::RandomState;

use sheaves::heap::report;
use sheaves::map::RcuHashMap;
use sheaves::rcu::read;
use sheaves_rcu::defer::barrier;

/// Bytes of entries and tables that are out, once nothing is deferred any more.
fn bytes_out() -> usize {
    barrier().unwrap();
    report::totals().used_bytes
}

/// The life of a map: the table grows, chains overflow, entries are replaced and removed, the table
/// shrinks, and a resize is in progress at the end.
fn live<V: Send + Sync + 'static>(entries: u64, value: fn(u64) -> V) {
    let map = RcuHashMap::<u64, V, RandomState>::default();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let map = &map;
            scope.spawn(move || {
                for key in (thread..entries).step_by(3) {
                    map.insert(key, value(key), &read());
                    map.insert(key, value(key), &read());
                }
                for key in (thread..entries).step_by(3).filter(|key| key % 50 != 0) {
                    map.remove(&key, &read());
                }
            });
        }
    });
    assert_eq!(map.len() as u64, entries.div_ceil(50));
    for key in 0..entries {
        map.insert(key, value(key), &read());
        if key % 5 != 0 {
            map.remove(&key, &read());
        }
    }
}

fn lives() {
    // The first round makes what is allocated once and kept.
    live(1000, |key| key);
    live(1000, |key| vec![key; 3]);
    let before = bytes_out();
    for entries in [0, 5, 10_000, 200_000] {
        live(entries, |key| key);
        assert_eq!(bytes_out(), before, "{entries} numbers");
        live(entries, |key| vec![key; 3]);
        assert_eq!(bytes_out(), before, "{entries} vectors");
    }
    // Proof that the measure works: what is kept is counted.
    let map = RcuHashMap::<u64, u64, RandomState>::default();
    map.insert(1, 1, &read());
    assert!(bytes_out() > before);
}

#[test]
fn map_frees_all_that_it_has_allocated() {
    if configurations::is_child() {
        lives();
    }
    configurations::run_all();
}
