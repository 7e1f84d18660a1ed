//! How long something stays deferred, and who is woken for it.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use sheaves::heap;
use sheaves::heap::report::totals;
use sheaves::rcu::defer::{self, barrier};

use crate::{PATHS, cache, defer_on, in_own_processes};

/// How often each thread has slept so far, by the kernel's count, but for the calling one.
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
fn an_idle_program_is_not_woken() {
    if in_own_processes("ages::an_idle_program_is_not_woken", &[]) {
        return;
    }
    let cache = cache();
    for object in 0..5000 {
        defer_on(object % PATHS, &cache);
    }
    barrier().unwrap();
    // What was armed before the barrier makes for one more look.
    thread::sleep(Duration::from_millis(300));
    let (before, grace_periods) = (sleeps_of_others(), sheaves_rcu::statistics().grace_periods);
    assert!(before > 0, "there is no reclaimer to be seen");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(sleeps_of_others(), before);
    assert_eq!(sheaves_rcu::statistics().grace_periods, grace_periods);
    // Nor more than once for each that is deferred and alone.
    defer_on(0, &cache);
    thread::sleep(Duration::from_secs(1));
    let woken = sleeps_of_others() - before;
    assert!((1..=4).contains(&woken), "{woken} times");
    assert_eq!(cache.stats().objects_deferred, 0);
}

/// Nothing gets older than twice the bound, whatever the path. The bound is such that a machine
/// with other work keeps it.
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
        // Where this thread has not run for long, the others may not have, either.
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

/// By bytes, not by count: the bound on age is a minute here.
#[test]
fn ten_large_blocks_are_freed_at_once() {
    const BLOCK_BYTES: usize = 64 << 20;
    let options = [("SHEAVES_RCU_AGE_MS", "60000")];
    if in_own_processes("ages::ten_large_blocks_are_freed_at_once", &options) {
        return;
    }
    let asked = defer::statistics().grace_periods_asked;
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
    assert!(defer::statistics().grace_periods_asked > asked);
}
