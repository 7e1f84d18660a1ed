//! Tests of `lock/steps.rs`.

extern crate std;
use super::*;
use crate::lock::Lock;

/// The status of a child that does this.
fn status_of(work: impl FnOnce()) -> i32 {
    // SAFETY: the child has this thread alone, needs no lock of another one, and ends below.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the report of a child that fails on purpose is not shown.
        unsafe { libc::close(libc::STDERR_FILENO) };
        work();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: waits for the child that was just made.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}

fn steps(count: usize) {
    (0..count).for_each(|_| step());
}

#[test]
fn a_walk_that_is_too_long_ends_the_process() {
    let lock = Lock::new(());
    let has_area = cfg!(any(target_arch = "aarch64", target_arch = "x86_64"));
    let are_counted = cfg!(debug_assertions) && has_area;
    let status = status_of(|| {
        let _held = lock.lock();
        steps(STEPS_MAX + 1);
    });
    assert_eq!(status, if are_counted { libc::SIGABRT } else { 0 });
}

#[test]
fn each_hold_has_its_own_steps() {
    let (outer, inner) = (Lock::new(()), Lock::new(()));
    // Without a lock.
    steps(2 * STEPS_MAX);
    for _ in 0..3 {
        let _outer = outer.lock();
        steps(STEPS_MAX - 1);
        for _ in 0..3 {
            let _inner = inner.try_lock().unwrap();
            steps(STEPS_MAX);
        }
        step();
        restart_steps();
        steps(STEPS_MAX);
    }
    let has_area = cfg!(any(target_arch = "aarch64", target_arch = "x86_64"));
    let are_counted = cfg!(debug_assertions) && has_area;
    let status = status_of(|| {
        let _outer = outer.lock();
        steps(STEPS_MAX);
        drop(inner.lock());
        step();
    });
    assert_eq!(status, if are_counted { libc::SIGABRT } else { 0 });
}

#[cfg(debug_assertions)]
#[test]
fn what_another_thread_has_counted_is_not_put_back() {
    let lock = Lock::new(());
    let of_other = (tls::thread_pointer() + 64) << COUNT_BITS | 200;
    // Relaxed, both: this thread alone.
    here().store(of_other, Ordering::Relaxed);
    drop(lock.lock());
    assert_ne!(here().load(Ordering::Relaxed), of_other);
}
