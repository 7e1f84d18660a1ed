//! Guards that are never dropped keep what was found under them valid, after their threads have
//! ended.
//!
//! Each test runs in a process of its own, in which no grace period ends any more.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::hash::RandomState;

use sheaves::map::RcuHashMap;
use sheaves::rcu::{RcuBox, read};
use sheaves_rcu::defer::flush;

#[path = "../../sheaves-rcu/tests/sections/leaked.rs"]
mod leaked;
#[path = "../../sheaves-percpu/tests/transactions/own_process.rs"]
mod own_process;

use leaked::{Counted, in_thread, leak};

/// Runs deferred callbacks and grace periods for a while. True if a grace period ends.
fn passes() -> bool {
    flush();
    leaked::passes()
}

/// Runs the test of that name in processes of its own, one for each engine. False in these, where
/// the test has to continue.
fn in_own_processes(name: &str) -> bool {
    const OWN: &str = "SHEAVES_TEST_OWN";
    if std::env::var_os(OWN).is_some() {
        return false;
    }
    let engines: [&[(&str, &str)]; 3] = [
        &[],
        &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
        &[("SHEAVES_RCU_FENCES", "1")],
    ];
    for engine in engines {
        own_process::pass(name, &[&[(OWN, "1")], engine].concat());
    }
    true
}

#[test]
fn values_of_a_map_stay() {
    if in_own_processes("values_of_a_map_stay") {
        return;
    }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let map = leak(RcuHashMap::<u64, Counted, RandomState>::default());
    for key in 0..3 {
        map.insert(key, Counted(&DROPS), &read());
    }
    // One is removed, one is replaced, and one is found again after the table was replaced.
    let seen: Vec<&'static Counted> =
        in_thread(|| (0..3).map(|key| map.get(&key, leak(read())).unwrap()).collect());
    map.remove(&0, &read());
    map.insert(1, Counted(&DROPS), &read());
    for key in 3..1000 {
        map.insert(key, Counted(&DROPS), &read());
    }
    assert!(!passes(), "a grace period has ended under a guard that was never dropped");
    assert_eq!(DROPS.load(Ordering::SeqCst), 0, "a value was dropped under its reader");
    assert!(seen.iter().all(|seen| core::ptr::eq(seen.0, &raw const DROPS)));
    assert!(core::ptr::eq(map.get(&2, &read()).unwrap(), seen[2]));
}

#[test]
fn value_of_a_box_stays() {
    if in_own_processes("value_of_a_box_stays") {
        return;
    }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let place = AtomicPtr::new(RcuBox::new(Counted(&DROPS)).into_raw());
    let seen: &'static Counted = in_thread(|| {
        core::mem::forget(read());
        // SAFETY: the value stays valid as long as the guard, which is never dropped.
        unsafe { &*place.load(Ordering::Acquire) }
    });
    // SAFETY: from `into_raw`, and no new reader finds it.
    drop(unsafe { RcuBox::from_raw(place.into_inner()) });
    assert!(!passes(), "a grace period has ended under a guard that was never dropped");
    assert_eq!(seen.0.load(Ordering::SeqCst), 0, "the value was dropped under its reader");
}
