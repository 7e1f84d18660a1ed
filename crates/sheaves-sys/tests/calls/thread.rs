//! `thread`.

use core::ptr::null;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use sheaves_sys::thread::*;

#[test]
fn signals_stay_pending_while_blocked() {
    // SAFETY: an all-zero set is valid to be filled.
    let mut pending: libc::sigset_t = unsafe { core::mem::zeroed() };
    with_signals_blocked(|| {
        // SAFETY: the signal is one that is ignored by default.
        unsafe { libc::raise(libc::SIGURG) };
        // SAFETY: the set is valid for writes.
        unsafe { libc::sigpending(&raw mut pending) };
    });
    // SAFETY: the set is valid.
    assert_eq!(unsafe { libc::sigismember(&raw const pending, libc::SIGURG) }, 1);
    // SAFETY: as above.
    let mut after: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: without a new set, the present one is written.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, null(), &raw mut after) };
    // SAFETY: the set is valid.
    assert_eq!(unsafe { libc::sigismember(&raw const after, libc::SIGURG) }, 0);
}

#[test]
fn threads_have_ids_and_names() {
    let mut text = [0; NAME_BYTES];
    assert!(is_alive(id()));
    assert!(name(id(), &mut text) > 0);
    let gone = std::thread::spawn(id).join().unwrap();
    // The kernel removes a thread shortly after `pthread_join` returns.
    let is_gone = (0..1000).any(|_| {
        sleep_ns(1_000_000);
        !is_alive(gone)
    });
    assert!(is_gone);
}

/// A thread has not ended while it runs destructors of its variables, nor before it begins.
#[test]
fn own_threads_are_known_until_they_have_ended() {
    static MAY_END: AtomicBool = AtomicBool::new(false);
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    struct Variable;
    impl Drop for Variable {
        fn drop(&mut self) {
            IS_ENDING.store(true, Ordering::SeqCst);
            while !MAY_END.load(Ordering::SeqCst) {
                sleep_ns(1_000_000);
            }
        }
    }
    thread_local!(static VARIABLE: Variable = const { Variable });
    assert!(spawn(|| VARIABLE.with(|_| ())));
    assert_eq!(own().count(), 1);
    while !IS_ENDING.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    assert!(own().count() == 1 && own().all(is_known_to_kernel));
    MAY_END.store(true, Ordering::SeqCst);
    while own().count() != 0 {
        std::thread::yield_now();
    }
}

/// A thread that runs waits for no other one; one that sleeps or is not there may do so for long.
#[test]
fn a_thread_that_runs_is_told_from_one_that_sleeps() {
    let (say_id, ids) = channel();
    let (stop, stopped) = channel::<()>();
    let sleeper = std::thread::spawn(move || {
        // Parentheses do not mislead.
        set_name(c") R (");
        say_id.send(id()).unwrap();
        let _ = stopped.recv();
    });
    let sleeping = ids.recv().unwrap();
    assert!(is_runnable(id()));
    while is_runnable(sleeping) {
        std::thread::yield_now();
    }
    drop(stop);
    sleeper.join().unwrap();
    assert!(!is_runnable(i32::MAX));
}
