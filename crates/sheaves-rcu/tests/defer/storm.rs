//! Readers beside all ways to defer, with barriers, short threads and failing requests for memory.
//!
//! Each object is poisoned when it is freed; a reader that finds poison has lost its object. Each
//! object has a state, which detects a second free, and the free of an object that is not deferred.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;

use sheaves_rcu::defer::{
    Channel, Head, barrier, call_hurry, call_rcu, flush, reclaim, statistics as deferred,
};
use sheaves_rcu::internal::faults::FAULTS;
use sheaves_rcu::read;

use crate::{alone, engines};

const FRESH: u64 = 0x600D;
const DEFERRED: u64 = 0xDEFE;
const POISON: u64 = 0xDEAD;
const PLACES: usize = 64;

#[repr(C)]
struct Item {
    head: Head,
    state: AtomicU64,
}

static FREED: AtomicUsize = AtomicUsize::new(0);
static ERRORS: AtomicUsize = AtomicUsize::new(0);
static STOP: AtomicBool = AtomicBool::new(false);
/// Freed items stay here before their memory is freed, so that a late reader finds the poison.
static GRAVE: Mutex<VecDeque<usize>> = Mutex::new(VecDeque::new());
const GRAVE_MAX: usize = 20_000;

fn end(item: *mut Item) {
    // SAFETY: the memory of items is only freed from the grave.
    let before = unsafe { (*item).state.swap(POISON, Ordering::SeqCst) };
    ERRORS.fetch_add(usize::from(before != DEFERRED), Ordering::SeqCst);
    FREED.fetch_add(1, Ordering::SeqCst);
    let mut grave = GRAVE.lock().unwrap();
    grave.push_back(item.expose_provenance());
    if grave.len() > GRAVE_MAX {
        let oldest = grave.pop_front().unwrap();
        // SAFETY: from a box, in the grave once.
        drop(unsafe { Box::from_raw(core::ptr::with_exposed_provenance_mut::<Item>(oldest)) });
    }
}

unsafe extern "C" fn end_call(head: *mut Head) {
    end(head.cast());
}

unsafe fn end_free(pointer: *mut u8) {
    end(pointer.cast());
}

static CHANNEL: Channel = Channel::new("storm", end_free);

fn fresh() -> *mut Item {
    Box::into_raw(Box::new(Item { head: Head::new(), state: AtomicU64::new(FRESH) }))
}

/// Defers an item in one of the ways, by `round`.
fn defer_somehow(item: *mut Item, round: usize) {
    // SAFETY: valid until it is deferred.
    let before = unsafe { (*item).state.swap(DEFERRED, Ordering::SeqCst) };
    ERRORS.fetch_add(usize::from(before != FRESH), Ordering::SeqCst);
    let (head, pointer) = (item.cast::<Head>(), item.cast::<u8>());
    match round % 16 {
        // SAFETY: unlinked, deferred once, here and below.
        0..8 => unsafe { call_rcu(head, end_call) },
        // SAFETY: as above; the head is first in the item.
        8..12 => unsafe { CHANNEL.free_later_with(head, pointer, 4096) },
        // SAFETY: as above.
        12..14 => unsafe { CHANNEL.free_later(pointer, 4096) },
        // SAFETY: as above.
        14 if round % 256 == 14 => unsafe { call_hurry(head, end_call) },
        _ => {
            let item = item.expose_provenance();
            sheaves_rcu::defer(move || end(core::ptr::with_exposed_provenance_mut(item)));
        }
    }
}

fn read_all(places: &[AtomicPtr<Item>]) {
    let _guard = read();
    let items: Vec<_> = places.iter().map(|place| place.load(Ordering::Acquire)).collect();
    thread::yield_now();
    for item in items {
        // SAFETY: found in this section; the test checks that it stays valid.
        let state = unsafe { (*item).state.load(Ordering::SeqCst) };
        ERRORS.fetch_add(usize::from(state == POISON), Ordering::SeqCst);
    }
}

fn update(places: &[AtomicPtr<Item>], round: usize) {
    let old = places[round * 7 % PLACES].swap(fresh(), Ordering::AcqRel);
    defer_somehow(old, round);
}

#[test]
fn everything_is_freed_once_and_not_too_early() {
    let _alone = alone();
    STOP.store(false, Ordering::SeqCst);
    let (freed_before, made) = (FREED.load(Ordering::SeqCst), AtomicUsize::new(PLACES));
    let leaks_before = deferred().emergencies.leaks;
    let places: Vec<_> = (0..PLACES).map(|_| AtomicPtr::new(fresh())).collect();
    FAULTS.fail_one_in(if engines::is_small() { 100 } else { 1000 });
    let running = || !STOP.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..).take_while(|_| running()).for_each(|_| read_all(&places)));
        }
        for seed in 0..2 {
            let (places, made) = (&places, &made);
            scope.spawn(move || {
                for round in (seed * 1000..).take_while(|_| running()) {
                    update(places, round);
                    made.fetch_add(1, Ordering::Relaxed);
                    // Sleeps, so that the pending items can be reclaimed meanwhile.
                    if round % 512 == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
        // Threads that start, defer a little, and end.
        scope.spawn(|| {
            for round in (0..).take_while(|_| running()) {
                thread::scope(|inner| {
                    inner.spawn(|| (0..3).for_each(|step| update(&places, round + step)));
                });
                made.fetch_add(3, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            for round in (0..).take_while(|_| running()) {
                match round % 3 {
                    0 => barrier().unwrap(),
                    1 => drop(reclaim()),
                    _ => flush(),
                }
                thread::sleep(Duration::from_micros(300));
            }
        });
        thread::sleep(seconds());
        STOP.store(true, Ordering::SeqCst);
    });
    FAULTS.fail_one_in(0);
    for place in &places {
        defer_somehow(place.swap(core::ptr::null_mut(), Ordering::AcqRel), 0);
    }
    barrier().unwrap();
    let leaks = deferred().emergencies.leaks - leaks_before;
    let freed = FREED.load(Ordering::SeqCst) - freed_before;
    println!("{freed} objects, {:?}", deferred());
    assert_eq!(ERRORS.load(Ordering::SeqCst), 0);
    assert_eq!(leaks, 0);
    assert_eq!(freed, made.load(Ordering::SeqCst));
    let after = deferred();
    let left = [after.calls, after.linked_calls, after.channels, after.sealed];
    assert!(left.iter().all(|pending| pending.objects == 0 && pending.bytes == 0), "{after:?}");
}

fn seconds() -> Duration {
    let asked = std::env::var("SHEAVES_STORM_SECONDS").ok().and_then(|value| value.parse().ok());
    Duration::from_secs(asked.unwrap_or(2))
}
