//! The age of deferred objects, and the wakeups for them.

use core::sync::atomic::Ordering;
use core::time::Duration;
use sheaves_rcu::internal;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use sheaves::heap;
use sheaves::heap::report::totals;
use sheaves::rcu::{
    self,
    defer::{self, barrier},
};

use crate::{FREED, PATHS, assert_nothing_is_left, cache, defer_on, in_own_processes, pending};

/// The threads of the library. The harness has threads, too.
fn threads_of_the_library() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm"));
    threads
        .filter_map(|thread| name(thread).ok())
        .filter(|name| name.starts_with("sheaves"))
        .count()
}

#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn idle_program_has_no_thread() {
    if in_own_processes("ages::idle_program_has_no_thread", &[]) {
        return;
    }
    let cache = cache();
    for object in 0..5000 {
        defer_on(object % PATHS, &cache);
    }
    wait_for("a thread", || threads_of_the_library() == 1);
    barrier().unwrap();
    wait_for("the end of the thread", || threads_of_the_library() == 0);
    let grace_periods = sheaves_rcu::statistics().grace_periods;
    thread::sleep(Duration::from_secs(1));
    assert_eq!(sheaves_rcu::statistics().grace_periods, grace_periods);
    assert_eq!(threads_of_the_library(), 0);
    // It comes back when it has something to do, also for one object.
    for _ in 0..2 {
        defer_on(0, &cache);
        wait_for("a thread", || threads_of_the_library() == 1);
        wait_for("a grace period", || cache.stats().objects_deferred == 0);
        wait_for("the end of the thread", || threads_of_the_library() == 0);
    }
}

/// Nothing gets older than twice the bound, on any path. The bound is one that a machine with other
/// work can keep.
#[test]
fn nothing_gets_older_than_twice_the_bound() {
    const BOUND_MS: u64 = 500;
    let options = [("SHEAVES_RCU_AGE_MS", "500")];
    if in_own_processes("ages::nothing_gets_older_than_twice_the_bound", &options) {
        return;
    }
    let cache = cache();
    let (begin, mut oldest_ms, mut count) = (Instant::now(), 0, 0);
    let mut last = begin;
    while begin.elapsed() < Duration::from_secs(4) {
        defer_on(count % PATHS, &cache);
        count += 1;
        thread::sleep(Duration::from_millis(5));
        let age_ms = defer::statistics().oldest_age_ms;
        // If this thread has not run for long, the others may not have run either.
        if last.elapsed() > Duration::from_millis(BOUND_MS / 2) {
            barrier().unwrap();
        } else {
            oldest_ms = age_ms.max(oldest_ms);
        }
        last = Instant::now();
    }
    println!("{count} objects, the oldest {oldest_ms} ms");
    assert!((BOUND_MS / 2..=2 * BOUND_MS).contains(&oldest_ms), "{oldest_ms} ms");
}

/// Freed because of their bytes: the bound on age is a minute here.
#[test]
fn ten_large_blocks_are_freed_at_once() {
    const BLOCK_BYTES: usize = 64 << 20;
    let options = [("SHEAVES_RCU_AGE_MS", "60000")];
    if in_own_processes("ages::ten_large_blocks_are_freed_at_once", &options) {
        return;
    }
    let passed = rcu::statistics().grace_periods;
    for _ in 0..10 {
        let block = heap::malloc(BLOCK_BYTES);
        assert!(!block.is_null());
        // SAFETY: from the heap, not used after.
        unsafe { heap::free_rcu(block) };
    }
    let begin = Instant::now();
    while totals().large_blocks > 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", defer::statistics());
        thread::sleep(Duration::from_millis(1));
    }
    println!("free after {:?}", begin.elapsed());
    // Led by this thread or by the reclaimer.
    assert!(rcu::statistics().grace_periods > passed);
}

/// A program that polls frees everything, also what was deferred without memory for a buffer while
/// earlier readers were active.
#[test]
fn polling_leaves_nothing_behind_without_memory() {
    let options = [("SHEAVES_RCU_RECLAIMERS", "0"), ("SHEAVES_RCU_AGE_MS", "1")];
    if in_own_processes("ages::polling_leaves_nothing_behind_without_memory", &options) {
        return;
    }
    let cache = cache();
    let (stop, stopped) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let reader = thread::spawn(move || {
        let _guard = sheaves_rcu::read();
        ready.send(()).unwrap();
        let _ = stopped.recv();
    });
    is_ready.recv().unwrap();
    let mut expected = 0;
    for _ in 0..5 {
        internal::faults::FAULTS.fail_one_in(1);
        // The channel has no heads: it would wait for the reader.
        expected +=
            (0..PATHS).filter(|path| *path != 3).map(|path| defer_on(path, &cache)).sum::<u64>();
        internal::faults::FAULTS.fail_one_in(0);
        thread::sleep(Duration::from_millis(20));
        defer::reclaim();
    }
    drop(stop);
    reader.join().unwrap();
    let begin = Instant::now();
    while FREED.load(Ordering::SeqCst) != expected || pending().iter().any(|p| p.objects != 0) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", defer::statistics());
        defer::reclaim();
        thread::sleep(Duration::from_millis(1));
    }
    assert_nothing_is_left();
    assert_eq!(defer::statistics().oldest_age_ms, 0);
}
