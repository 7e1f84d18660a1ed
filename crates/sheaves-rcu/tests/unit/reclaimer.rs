//! Tests of private items of `defer/work/reclaimer`.

extern crate std;
use super::*;
use core::sync::atomic::AtomicI32;
use core::time::Duration;
use sheaves_sys::topology::Affinity;
use std::time::Instant;

#[test]
fn a_child_does_not_know_the_thread() {
    assert!(start_or_report());
    let begin = Instant::now();
    while reclaimer_thread().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: this process must be able to wait for children, whatever it has inherited.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: the child reads two words, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // Relaxed: the child has one thread.
        let is_known = is_running() || THREAD.load(Ordering::Relaxed) != 0;
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(is_known)) };
    }
    assert_eq!(status_of(child), 0);
}

/// The status with which a child ends, or is killed when it does not.
fn status_of(child: i32) -> i32 {
    let (begin, mut status) = (Instant::now(), 0);
    // SAFETY: polls the child.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if begin.elapsed() > Duration::from_secs(20) {
            // SAFETY: the child exists: it was not waited for yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    status
}

/// When a callback forks, another thread may have deferred something and not have armed the age
/// bound.
#[test]
fn the_child_of_a_callback_seals_what_is_not_armed() {
    const STATUS: i32 = 42;
    const NONE: i32 = -1;
    static CHILD: AtomicI32 = AtomicI32::new(NONE);
    static IS_CALLED: AtomicBool = AtomicBool::new(false);
    static HAS_DEFERRED: AtomicBool = AtomicBool::new(false);
    // Two slots, if there are two CPUs. What is in its own slot the reclaimer seals in any case.
    crate::defer(|| bind(false));
    bind(true);
    crate::defer::barrier().unwrap();
    crate::defer(|| {
        IS_CALLED.store(true, Ordering::SeqCst);
        // Awake, so that the other thread has another slot.
        while !HAS_DEFERRED.load(Ordering::SeqCst) {
            core::hint::spin_loop();
        }
        pressure::disarm();
        // SAFETY: the child goes on as the reclaimer, until the other callback ends it.
        let child = unsafe { libc::fork() };
        if child != 0 {
            pressure::arm();
            CHILD.store(child, Ordering::SeqCst);
        }
    });
    while !IS_CALLED.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    crate::defer(|| {
        if CHILD.load(Ordering::SeqCst) == NONE {
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(STATUS) }
        }
    });
    HAS_DEFERRED.store(true, Ordering::SeqCst);
    while CHILD.load(Ordering::SeqCst) == NONE {
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = status_of(CHILD.load(Ordering::SeqCst));
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == STATUS, "{status:#x}");
}

/// Binds the calling thread to its first or its last CPU.
fn bind(is_last: bool) {
    let cpus = Affinity::current().unwrap();
    let cpu_id = if is_last { cpus.cpu_ids().last() } else { cpus.cpu_ids().next() };
    assert!(Affinity::only(cpu_id.unwrap()).unwrap().bind());
}
