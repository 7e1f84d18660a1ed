//! Forks: the child sees the parent's values, and then both change them separately.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use sheaves_percpu::{Counter, PerCpu, PerCpuRef, memory};

use crate::{Dice, in_process, is_process_for};

const FORKS: usize = 20;
const THREADS: usize = 4;
/// Number of forks next to a thread whose steps are short.
const KILL_FORKS: usize = 40;
const CHILD_SECONDS: u32 = 20;

static COUNTER: Counter = Counter::new();

/// Forks. The child runs `body` and exits with its result, which is asserted here.
fn in_child(body: impl FnOnce() -> bool) {
    // SAFETY: the child works on per-CPU memory and exits; this file tests that it may.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: no precondition. A child that hangs is killed.
        unsafe { libc::alarm(CHILD_SECONDS) };
        let code = if body() { 0 } else { 1 };
        // SAFETY: ends the child without the destructors of the test harness.
        unsafe { libc::_exit(code) };
    }
    assert!(process > 0);
    let mut status = -1;
    // SAFETY: the status is valid for the call.
    assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    assert_eq!(status, 0, "the child failed or hung");
}

/// Allocates, uses and frees values of many sizes.
fn use_memory(seed: u64) -> bool {
    let mut dice = Dice(seed);
    let values: Vec<_> = (0..200).map(|_| PerCpu::<[AtomicU64; 3]>::zeroed().unwrap()).collect();
    let handles: Vec<_> =
        (0..200).map(|_| memory::alloc(8 + dice.throw(3000), 8).unwrap()).collect();
    for value in &values {
        value.get()[1].fetch_add(1, Ordering::Relaxed);
    }
    for handle in &handles {
        // SAFETY: changed by transactions only; allocated until freed below.
        unsafe { handle.cell::<usize>(0) }.add(handle.offset());
    }
    let sum = |value: &PerCpu<[AtomicU64; 3]>| -> u64 {
        value.iter().map(|slot| slot[1].load(Ordering::Relaxed)).sum()
    };
    let mut is_right = values.iter().all(|value| sum(value) == 1);
    for handle in handles {
        // SAFETY: as above.
        is_right &= unsafe { handle.cell::<usize>(0) }.sum() == handle.offset();
        // SAFETY: the object is not used any more.
        is_right &= unsafe { memory::free(handle) }.is_ok();
    }
    is_right
}

#[test]
fn both_sides_go_on() {
    let value = PerCpu::<AtomicU64>::zeroed().unwrap();
    let sum = || value.iter().map(|slot| slot.load(Ordering::Relaxed)).sum::<u64>();
    value.get().fetch_add(5, Ordering::Relaxed);
    COUNTER.add(70_000);
    let before = COUNTER.sum();
    in_child(|| {
        let inherited = sum() == 5 && COUNTER.sum() == before;
        value.get().fetch_add(1, Ordering::Relaxed);
        COUNTER.sub(70_000);
        inherited && sum() == 6 && COUNTER.sum() == before - 70_000 && use_memory(3)
    });
    assert_eq!(sum(), 5);
    assert_eq!(COUNTER.sum(), before);
    assert!(use_memory(4));
}

#[test]
fn references_are_counted_on_both_sides() {
    let released = AtomicBool::new(false);
    let count = PerCpuRef::new(|| released.store(true, Ordering::Relaxed));
    assert!(count.try_get());
    in_child(|| {
        let killed = count.kill() == Ok(true);
        count.put();
        killed && released.load(Ordering::Relaxed) && !count.try_get()
    });
    assert!(count.try_get_live() && !released.load(Ordering::Relaxed));
    count.put();
    count.put();
    assert_eq!(count.kill(), Ok(true));
    assert!(released.load(Ordering::Relaxed));
}

/// Ends the loops of other threads, even if the test fails.
struct Running(AtomicBool);

impl Running {
    fn is_set(&self) -> bool {
        // Relaxed: ends a loop.
        self.0.load(Ordering::Relaxed)
    }

    fn end_after<R>(&self, body: impl FnOnce() -> R) -> R {
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                // Relaxed: ends a loop.
                self.0.store(false, Ordering::Relaxed);
            }
        }
        let _end = End(&self.0);
        body()
    }
}

/// Forks while other threads are in the middle of operations of all kinds.
#[test]
fn children_of_busy_parents() {
    let running = AtomicBool::new(true);
    let forks = if crate::engines::is_small() { 3 } else { FORKS };
    std::thread::scope(|scope| {
        for seed in 1..=THREADS as u64 {
            let running = &running;
            scope.spawn(move || {
                // Relaxed: ends the loop.
                while running.load(Ordering::Relaxed) {
                    assert!(use_memory(seed));
                    if seed == 1 {
                        memory::trim();
                        let _ = COUNTER.sum();
                    }
                }
            });
        }
        let counter = Counter::<3>::with_batch();
        for fork in 1..=forks {
            counter.add(1000);
            in_child(|| {
                let inherited = counter.sum() == 1000 * fork as i64;
                counter.add(1);
                inherited && counter.sum() == 1000 * fork as i64 + 1 && use_memory(fork as u64)
            });
        }
        assert_eq!(counter.sum(), 1000 * forks as i64);
        running.store(false, Ordering::Relaxed);
    });
}

/// A count that another thread kills and reinitialises is alive or dead in the child, never in
/// between.
#[test]
fn references_are_killed_and_revived_beside_forks() {
    static RELEASED: AtomicUsize = AtomicUsize::new(0);
    // Relaxed, here and below: counted by one thread, and read in a process with no other thread.
    static COUNT: PerCpuRef = PerCpuRef::new(|| {
        RELEASED.fetch_add(1, Ordering::Relaxed);
    });
    let running = Running(AtomicBool::new(true));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while running.is_set() {
                assert_eq!(COUNT.kill(), Ok(true));
                assert!(COUNT.is_released());
                COUNT.reinit().unwrap();
            }
        });
        let fork = || {
            in_child(|| {
                if !COUNT.is_killed() {
                    let before = RELEASED.load(Ordering::Relaxed);
                    let killed = COUNT.try_get_live() && COUNT.kill() == Ok(true);
                    COUNT.put();
                    if !killed || RELEASED.load(Ordering::Relaxed) != before + 1 {
                        return false;
                    }
                }
                let is_over = COUNT.is_released() && !COUNT.try_get();
                is_over && COUNT.reinit().is_ok() && COUNT.try_get_live()
            });
        };
        running.end_after(|| (0..KILL_FORKS).for_each(|_| fork()));
    });
}

/// Memory is out before a fork.
#[test]
#[cfg_attr(target_env = "musl", ignore = "the test's own allocations map memory in musl")]
fn children_of_parents_without_memory() {
    const NAME: &str = "forks::children_of_parents_without_memory";
    if !is_process_for(NAME) {
        in_process(NAME, &[]);
        return;
    }
    let running = Running(AtomicBool::new(true));
    assert!(use_memory(9));
    let ready = std::sync::Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                ready.wait();
                while running.is_set() {
                    let handles: Vec<_> =
                        (0..8).filter_map(|_| memory::alloc(64, 8).ok()).collect();
                    for handle in handles {
                        // SAFETY: allocated above, and not used.
                        unsafe { memory::free(handle) }.unwrap();
                    }
                }
            });
        }
        ready.wait();
        // SAFETY: the limit is valid for the call. After it no mapping can grow.
        let status =
            unsafe { libc::setrlimit(libc::RLIMIT_AS, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
        assert_eq!(status, 0);
        let fork = || {
            in_child(|| {
                memory::trim();
                let handle = memory::alloc(64, 8);
                // SAFETY: allocated above, and not used.
                handle.is_ok_and(|handle| unsafe { memory::free(handle) }.is_ok())
            });
        };
        running.end_after(|| (0..KILL_FORKS).for_each(|_| fork()));
    });
}
