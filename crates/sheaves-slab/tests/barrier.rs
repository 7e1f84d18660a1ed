//! A barrier returns everything that was deferred before it, also what is in a sheaf that another
//! thread has just taken out of the slot that both use.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::process::Command;
use std::thread;
use std::time::Instant;

use sheaves_rcu::defer::barrier;
use sheaves_slab::raw::{Cache, Options};

const OWN: &str = "SHEAVES_TEST_OWN";
const ROUNDS: usize = 5000;
const STOP: Duration = Duration::from_millis(5);
/// One less than a sheaf for deferred objects holds.
const MANY: usize = 123;
/// Fills the sheaf, and exchanges it.
const FEW: usize = 2;

/// Rounds that were begun, whose barriers have returned, and that the other thread has ended.
static BEGUN: AtomicUsize = AtomicUsize::new(0);
static RETURNED: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);
/// The other thread.
static OTHER: AtomicU64 = AtomicU64::new(0);
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Stops its thread at any instruction until the barrier has returned, or waits for this thread.
extern "C" fn stop(_signal: libc::c_int) {
    let begin = Instant::now();
    while RETURNED.load(Ordering::SeqCst) < BEGUN.load(Ordering::SeqCst) && begin.elapsed() < STOP {
        thread::yield_now();
    }
}

fn take(cache: &Cache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().unwrap()).collect()
}

fn defer(cache: &Cache, objects: Vec<NonNull<u8>>) {
    for object in objects {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free_rcu(object) };
    }
}

/// Defers a few objects in each round.
fn exchange(cache: &Cache) {
    // SAFETY: no precondition.
    OTHER.store(unsafe { libc::pthread_self() }, Ordering::SeqCst);
    for round in 1.. {
        let objects = take(cache, FEW);
        while BEGUN.load(Ordering::SeqCst) < round {
            if IS_OVER.load(Ordering::SeqCst) {
                return;
            }
        }
        // Different in each round: the signal arrives at another instruction.
        let (begin, delay) = (Instant::now(), Duration::from_nanos(round as u64 * 7919 % 8000));
        while begin.elapsed() < delay {}
        defer(cache, objects);
        ENDED.store(round, Ordering::SeqCst);
    }
}

fn rounds(cache: &Cache) {
    let handler = stop as extern "C" fn(libc::c_int);
    // SAFETY: the handler reads the clock and yields only.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    let mut missed = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| exchange(cache));
        while OTHER.load(Ordering::SeqCst) == 0 {}
        for round in 1..=ROUNDS {
            defer(cache, take(cache, MANY));
            BEGUN.store(round, Ordering::SeqCst);
            // SAFETY: the thread runs until this one tells it to end.
            unsafe { libc::pthread_kill(OTHER.load(Ordering::SeqCst), libc::SIGUSR1) };
            barrier().unwrap();
            RETURNED.store(round, Ordering::SeqCst);
            while ENDED.load(Ordering::SeqCst) < round {
                thread::yield_now();
            }
            let left = cache.stats().objects_deferred;
            barrier().unwrap();
            if left > FEW {
                missed.push((round, left));
            }
        }
        IS_OVER.store(true, Ordering::SeqCst);
    });
    assert!(missed.is_empty(), "round, objects that a barrier has left: {missed:?}");
}

#[test]
fn a_sheaf_that_is_being_exchanged_is_found() {
    if std::env::var_os(OWN).is_some() {
        let cache = Cache::new("exchanged", Layout::new::<[u64; 6]>(), Options::default()).unwrap();
        return rounds(&cache);
    }
    // One slot, for threads that run at the same time.
    let options = [("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "1"), (OWN, "1")];
    let output = Command::new(std::env::current_exe().unwrap()).envs(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
