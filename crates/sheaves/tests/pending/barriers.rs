//! Barriers: partial buffers in every slot, no memory, and children of forks.

use core::sync::atomic::Ordering;
use sheaves_rcu::internal;
use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use sheaves::raw::Cache;
use sheaves::rcu::defer::barrier;
use sheaves_percpu::internal::current_slot;

use crate::{
    ALLOCATIONS, FREED, PATHS, assert_nothing_is_left, cache, defer_on, in_own_processes, pending,
};

/// Objects of each path in each slot: far less than a sheaf or a buffer holds.
const EACH: usize = 5;
/// More than there are slots, so that the slots of other threads leave none out.
const THREADS: usize = 72;

/// Defers a little on every path in every slot that threads get; returns the number of callbacks.
fn fill_slots(cache: &Cache) -> u64 {
    let (used, expected) = (Mutex::new(HashSet::new()), Mutex::new(0));
    let wanted = if std::env::var("SHEAVES_SLOTS").is_ok() { 64 } else { 1 };
    let mut rounds = 0;
    // A thread may move to another slot if its slot is in use, so one may be left out.
    while used.lock().unwrap().len() < wanted {
        rounds += 1;
        assert!(rounds < 100, "some slots are empty");
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let calls = (0..EACH * PATHS).map(|object| defer_on(object % PATHS, cache));
                    *expected.lock().unwrap() += calls.sum::<u64>();
                    used.lock().unwrap().insert(current_slot());
                });
            }
        });
    }
    expected.into_inner().unwrap()
}

/// While this exists no memory is available: not from Rust's allocator (which is counted), not from
/// the pools, not from the kernel.
struct NoMemory {
    allocations: usize,
    limit: libc::rlimit,
}

impl NoMemory {
    fn begin() -> NoMemory {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: valid for the limit to be written.
        unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
        set_limit(&libc::rlimit { rlim_cur: 4096, ..limit });
        internal::faults::FAULTS.fail_one_in(1);
        sheaves_slab::internal::FAULTS.fail_one_in(1);
        NoMemory { allocations: ALLOCATIONS.load(Ordering::SeqCst), limit }
    }

    fn end(self) {
        let allocations = ALLOCATIONS.load(Ordering::SeqCst);
        set_limit(&self.limit);
        internal::faults::FAULTS.fail_one_in(0);
        sheaves_slab::internal::FAULTS.fail_one_in(0);
        assert_eq!(allocations, self.allocations, "a barrier has allocated");
    }
}

fn set_limit(limit: &libc::rlimit) {
    // SAFETY: a valid limit. Existing mappings stay.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, core::ptr::from_ref(limit)) }, 0);
}

/// A barrier without memory, after which everything must be freed.
fn wait_without_memory(expected: u64) {
    let no_memory = NoMemory::begin();
    let waited = barrier();
    let freed = FREED.load(Ordering::SeqCst);
    no_memory.end();
    assert_eq!((waited, freed), (Ok(()), expected));
    assert_nothing_is_left();
}

#[test]
fn barrier_empties_every_slot_without_memory() {
    // Long, so that nothing is sealed by age meanwhile.
    let options = [("SHEAVES_RCU_AGE_MS", "60000")];
    if in_own_processes("barriers::barrier_empties_every_slot_without_memory", &options) {
        return;
    }
    let cache = cache();
    let mut expected = 0;
    for round in 0..20 {
        expected += fill_slots(&cache);
        if round == 0 {
            assert!(pending().iter().all(|path| path.objects > 0), "{:?}", pending());
        }
        wait_without_memory(expected);
    }
    cache.destroy().expect("nothing is out");
}

#[test]
fn barrier_in_a_child_empties_the_slots_of_its_parent() {
    let options = [("SHEAVES_RCU_AGE_MS", "60000")];
    if in_own_processes("barriers::barrier_in_a_child_empties_the_slots_of_its_parent", &options) {
        return;
    }
    let cache = cache();
    let expected = fill_slots(&cache);
    // SAFETY: no other thread holds a lock, and the child ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let in_child = || {
            wait_without_memory(expected);
            // It also frees what the child defers itself, with a reclaimer of its own.
            let more = expected + fill_slots(&cache);
            wait_without_memory(more);
        };
        let is_fine = std::panic::catch_unwind(core::panic::AssertUnwindSafe(in_child)).is_ok();
        // SAFETY: ends the child without running the parent's handlers.
        unsafe { libc::_exit(i32::from(!is_fine)) };
    }
    let mut status = 0;
    // SAFETY: the child from above, and a place for its status.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    wait_without_memory(expected);
    cache.destroy().expect("nothing is out");
}
