//! `PerCpuRef`: references, kills during other operations, and a single release.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sheaves_percpu::internal::{EngineMode, facts};
use sheaves_percpu::{KillError, PerCpuRef, ReinitError};
use sheaves_sys::sandbox;

use crate::seccomp;

#[test]
fn one_life() {
    let released = AtomicUsize::new(0);
    // Relaxed, here and below: one thread.
    let count = PerCpuRef::new(|| {
        released.fetch_add(1, Ordering::Relaxed);
    });
    assert!(count.try_get() && count.try_get_live());
    count.get();
    count.put();
    assert!(!count.is_killed() && !count.is_released());
    assert_eq!(count.reinit(), Err(ReinitError::Alive));
    assert_eq!(count.kill(), Ok(true));
    assert_eq!(count.kill(), Ok(false));
    assert!(count.is_killed() && !count.is_released());
    assert!(!count.try_get_live() && count.try_get());
    count.put();
    count.put();
    assert_eq!(count.reinit(), Err(ReinitError::InUse));
    assert_eq!(released.load(Ordering::Relaxed), 0);
    count.put();
    assert_eq!(released.load(Ordering::Relaxed), 1);
    assert!(count.is_released() && !count.try_get());
    // One put too many changes nothing.
    count.put();
    count.get();
    assert_eq!(released.load(Ordering::Relaxed), 1);
    assert_eq!(count.reinit(), Ok(()));
    assert!(count.try_get_live());
    count.put();
    assert_eq!(count.kill(), Ok(true));
    assert_eq!(released.load(Ordering::Relaxed), 2);
}

#[test]
fn kill_without_references_releases_at_once() {
    let released = AtomicUsize::new(0);
    // Relaxed: one thread.
    let count = PerCpuRef::new(|| {
        released.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(count.kill(), Ok(true));
    assert!(count.is_released());
    assert_eq!(released.load(Ordering::Relaxed), 1);
}

static STATIC: PerCpuRef = PerCpuRef::new(|| ());

#[test]
fn statics_have_references() {
    assert!(STATIC.try_get_live());
    STATIC.put();
}

/// The counted object: a thread with a reference may use it, and it ends with the last reference.
struct Thing {
    /// Number of uses in progress.
    uses: AtomicUsize,
    ended: AtomicBool,
}

/// Threads get, pass on and put references while the count is killed, again and again.
#[test]
fn kills_in_the_middle() {
    let thing = Thing { uses: AtomicUsize::new(0), ended: AtomicBool::new(false) };
    let releases = AtomicUsize::new(0);
    let count = PerCpuRef::new(|| {
        assert_eq!(thing.uses.load(Ordering::SeqCst), 0, "released while in use");
        assert!(!thing.ended.swap(true, Ordering::SeqCst), "released twice");
        releases.fetch_add(1, Ordering::SeqCst);
    });
    let running = AtomicBool::new(true);
    let lives = if crate::engines::is_small() { 10 } else { 300 };
    std::thread::scope(|scope| {
        let using: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut got = 0_usize;
                    while running.load(Ordering::Relaxed) {
                        if !count.try_get_live() {
                            std::thread::yield_now();
                            continue;
                        }
                        got += 1;
                        thing.uses.fetch_add(1, Ordering::SeqCst);
                        assert!(!thing.ended.load(Ordering::SeqCst), "used after the end");
                        // Another reference, possibly put by another thread.
                        count.get();
                        if got.is_multiple_of(64) {
                            std::thread::yield_now();
                        }
                        count.put();
                        thing.uses.fetch_sub(1, Ordering::SeqCst);
                        count.put();
                    }
                    got
                })
            })
            .collect();
        for life in 1..=lives {
            std::thread::sleep(core::time::Duration::from_micros(200));
            assert_eq!(count.kill(), Ok(true));
            assert!(!count.try_get_live());
            while !count.is_released() {
                std::thread::yield_now();
            }
            while releases.load(Ordering::SeqCst) < life {
                std::thread::yield_now();
            }
            thing.ended.store(false, Ordering::SeqCst);
            assert_eq!(count.reinit(), Ok(()));
        }
        running.store(false, Ordering::Relaxed);
        let got: usize = using.into_iter().map(|thread| thread.join().unwrap()).sum();
        println!("{got} references in {lives} lives");
    });
    assert_eq!(releases.load(Ordering::SeqCst), lives);
    assert_eq!(count.kill(), Ok(true));
    assert_eq!(releases.load(Ordering::SeqCst), lives + 1);
}

/// Of many threads that kill at once, one succeeds.
#[test]
fn one_kill_wins() {
    for _ in 0..if crate::engines::is_small() { 5 } else { 50 } {
        let releases = AtomicUsize::new(0);
        let count = PerCpuRef::new(|| {
            releases.fetch_add(1, Ordering::SeqCst);
        });
        assert!(count.try_get());
        let kills = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| count.kill().unwrap())).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).filter(|won| *won).count()
        });
        assert_eq!((kills, releases.load(Ordering::SeqCst)), (1, 0));
        count.put();
        assert_eq!(releases.load(Ordering::SeqCst), 1);
    }
}

/// In a sandbox no system call is made that it may refuse.
#[test]
fn a_kill_in_a_sandbox_makes_no_system_call() {
    const NAME: &str = "kills::a_kill_in_a_sandbox_makes_no_system_call";
    if !crate::is_process_for(NAME) {
        crate::in_process(NAME, &[("SHEAVES_ENGINE", "rseq-cpu")]);
        return;
    }
    let count = PerCpuRef::new(|| ());
    assert!(count.try_get_live());
    sandbox::enter();
    let calls = [libc::SYS_membarrier, libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity];
    let mut program = seccomp::program(&calls, 0);
    for answer in program.iter_mut().filter(|line| line.k == libc::SECCOMP_RET_ERRNO) {
        answer.k = libc::SECCOMP_RET_KILL_PROCESS;
    }
    if let Err(error) = seccomp::install(&program) {
        println!("skipped: filters are not permitted here: {error}");
    }
    let is_portable = facts().mode == EngineMode::Portable;
    assert_eq!(count.kill(), if is_portable { Ok(true) } else { Err(KillError::NoFence) });
    assert_eq!(count.try_get_live(), !is_portable);
}
