//! The age of deferred objects, and the wakeups for them.

use core::sync::atomic::Ordering;
use core::time::Duration;
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

/// How often the other threads have slept: their voluntary context switches.
fn sleeps_of_others() -> u64 {
    // SAFETY: no precondition.
    let own = unsafe { libc::gettid() }.to_string();
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap());
    let others = threads.filter(|thread| thread.file_name() != *own);
    let sleeps = others.map(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap();
        let name = status.lines().next().unwrap().to_owned();
        let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        // The harness has threads, too.
        if name.contains("sheaves") { sleeps.unwrap().trim().parse::<u64>().unwrap() } else { 0 }
    });
    sleeps.sum()
}

#[test]
fn idle_program_is_not_woken() {
    if in_own_processes("ages::idle_program_is_not_woken", &[]) {
        return;
    }
    let cache = cache();
    for object in 0..5000 {
        defer_on(object % PATHS, &cache);
    }
    barrier().unwrap();
    // What was armed before the barrier causes one more wakeup; the keeper looks at what is free.
    let begin = Instant::now();
    while defer::is_kept() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the keeper does not end");
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_millis(300));
    let (before, grace_periods) = (sleeps_of_others(), sheaves_rcu::statistics().grace_periods);
    assert!(before > 0, "there is no reclaimer to be seen");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(sleeps_of_others(), before);
    assert_eq!(sheaves_rcu::statistics().grace_periods, grace_periods);
    // At most one wakeup for each object that is deferred alone.
    defer_on(0, &cache);
    thread::sleep(Duration::from_secs(1));
    let woken = sleeps_of_others() - before;
    assert!((1..=4).contains(&woken), "{woken} times");
    assert_eq!(cache.stats().objects_deferred, 0);
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
    while totals().huge_blocks > 0 {
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
        defer::faults::FAULTS.fail_one_in(1);
        // The channel has no heads: it would wait for the reader.
        expected +=
            (0..PATHS).filter(|path| *path != 3).map(|path| defer_on(path, &cache)).sum::<u64>();
        defer::faults::FAULTS.fail_one_in(0);
        thread::sleep(Duration::from_millis(20));
        defer::poll();
    }
    drop(stop);
    reader.join().unwrap();
    let begin = Instant::now();
    while FREED.load(Ordering::SeqCst) != expected || pending().iter().any(|p| p.objects != 0) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", defer::statistics());
        defer::poll();
        thread::sleep(Duration::from_millis(1));
    }
    assert_nothing_is_left();
    assert_eq!(defer::statistics().oldest_age_ms, 0);
}
