//! Forks in the middle of everything.

use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_rcu::{Cookie, read, synchronize};

use crate::{Reader, alone};

/// Runs `body` in a child of a fork; whether it returned true there within ten seconds.
pub(crate) fn in_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `body` and ends by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: ends the child if it hangs.
        unsafe { libc::alarm(10) };
        let status = if body() { 0 } else { 1 };
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn a_child_does_not_wait_for_readers_of_its_parent() {
    let _alone = alone();
    let _readers = [Reader::start(), Reader::start()];
    assert!(in_child(|| synchronize().is_ok() && synchronize().is_ok()));
    // The same while a grace period is under way.
    let cookie = Cookie::start_poll_expedited();
    assert!(!cookie.poll());
    assert!(in_child(|| synchronize().is_ok() && cookie.poll()));
}

#[test]
fn a_section_stays_open_in_the_child() {
    let _alone = alone();
    let guard = read();
    let ok = in_child(|| {
        let cookie = Cookie::start_poll_expedited();
        if !sheaves_rcu::is_reading() || cookie.poll() || synchronize().is_ok() {
            return false;
        }
        drop(read());
        drop(guard);
        cookie.poll() && synchronize().is_ok()
    });
    assert!(ok);
}

#[test]
fn forks_beside_grace_periods() {
    let _alone = alone();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    synchronize().unwrap();
                    drop(read());
                }
            });
        }
        for _ in 0..50 {
            assert!(in_child(|| synchronize().is_ok() && Cookie::start_poll().wait().is_ok()));
        }
        stop.store(true, Ordering::Relaxed);
    });
}
