//! Tests of cells, and of what the compiler rejects.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use std::sync::LazyLock;

use sheaves_rcu::{RcuCell, RcuOption, Retired, defer, read};

/// Counts the drops of its values.
struct Counted(&'static AtomicUsize, u64);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_is_replaced_comes_back() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    let dropped = &DROPPED;
    let cell = RcuCell::new(Counted(dropped, 1));
    let old = cell.store(Counted(dropped, 2));
    assert_eq!((old.1, dropped.load(Ordering::Relaxed)), (1, 0));
    assert_eq!(old.synchronize().ok().unwrap().1, 1);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    drop(cell.update(|old| Counted(dropped, old.1 + 1)));
    assert_eq!(cell.load(&read()).1, 3);
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    drop(cell);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}

/// Its destructor replaces the value of another cell.
struct Replaces(&'static RcuCell<Counted>, &'static AtomicUsize);

impl Drop for Replaces {
    fn drop(&mut self) {
        drop(self.0.store(Counted(self.1, 0)));
    }
}

/// Dropped by readers, and by destructors in a read section or in a deferred callback.
#[test]
fn values_dropped_inside_a_reader_are_dropped_later() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    static CELL: LazyLock<RcuCell<Counted>> = LazyLock::new(|| RcuCell::new(Counted(&DROPPED, 0)));
    let outer = RcuCell::new(Replaces(&CELL, &DROPPED));
    {
        let _guard = read();
        for _ in 0..10 {
            drop(CELL.store(Counted(&DROPPED, 0)));
            CELL.set(Counted(&DROPPED, 0));
            drop(Replaces(&CELL, &DROPPED));
            drop(outer.store(Replaces(&CELL, &DROPPED)));
        }
        assert_eq!(DROPPED.load(Ordering::Relaxed), 0);
    }
    drop(outer);
    // A callback defers again what its destructor has replaced.
    (0..2).for_each(|_| defer::barrier().unwrap());
    assert_eq!(DROPPED.load(Ordering::Relaxed), 41);
}

#[test]
fn retired_values_wait_for_readers() {
    let cell = RcuCell::new(1);
    let guard = read();
    let seen = cell.load(&guard);
    let old = cell.store(2);
    let old = old.synchronize().err().unwrap();
    let old = old.try_reclaim().err().unwrap();
    assert_eq!((*seen, *old, *cell.load(&guard)), (1, 1, 2));
    drop(guard);
    assert_eq!(*old.synchronize_expedited().ok().unwrap(), 1);
}

#[test]
fn only_what_was_seen_is_exchanged() {
    let cell = RcuCell::new(1);
    let guard = read();
    let seen = cell.load(&guard);
    let first = cell.compare_exchange(seen, Box::new(2), &guard).ok().unwrap();
    let back = cell.compare_exchange(seen, Box::new(3), &guard).err().unwrap();
    assert_eq!((*back, *cell.load(&guard)), (3, 2));
    drop(guard);
    drop(first);
    let option = RcuOption::empty();
    let guard = read();
    assert!(option.compare_exchange(None, Some(Box::new(1)), &guard).is_ok_and(|o| o.is_none()));
    assert!(option.compare_exchange(None, None, &guard).is_err());
    drop(guard);
    assert_eq!(option.take().map(|old| *old), Some(1));
    assert!(option.take().is_none());
}

#[test]
fn readers_beside_updaters_see_whole_values() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 2000 };
    let cell = RcuCell::new([0_u64; 8]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let guard = read();
                    let value = cell.load(&guard);
                    assert!(value.iter().all(|part| *part == value[0]) && value[0] >= last);
                    last = value[0];
                }
            });
        }
        let updaters = [(); 2].map(|()| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let mut old = cell.update(|value| value.map(|part| part + 1));
                    if round % 2 == 0 {
                        // Readers that still use it would detect this.
                        old = old
                            .synchronize()
                            .map(|mut gone| {
                                gone[0] = u64::MAX;
                                RcuOption::new(*gone).take().unwrap()
                            })
                            .unwrap();
                    }
                    drop::<Retired<_>>(old);
                }
            })
        });
        updaters.into_iter().for_each(|updater| updater.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(cell.load(&read())[0], 2 * ROUNDS);
}
