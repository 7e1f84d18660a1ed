//! Forks at every stage of sections and grace periods.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use core::time::Duration;
use std::os::unix::thread::JoinHandleExt as _;
use std::time::Instant;

use sheaves_rcu::{Cookie, read, statistics, synchronize};

use crate::configurations::in_own_process;
use crate::{Reader, alone, children};

/// Runs `body` in the child of a fork; true if it returned true there within ten seconds.
pub(crate) fn in_child(body: impl FnOnce() -> bool) -> bool {
    children::in_child(Duration::from_secs(10), body)
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

/// What the handler below has found in the child: a cookie, and the number of completed grace
/// periods.
static COOKIE: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicU64 = AtomicU64::new(0);
/// The child's number; 0 in the child, and -1 before the fork.
static CHILD: AtomicI32 = AtomicI32::new(-1);

extern "C" fn fork_here(_: i32) {
    // SAFETY: the child goes on with what was interrupted, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // Both functions are permitted in a handler.
        let cookie = Cookie::start_poll_expedited();
        let _ = cookie.poll();
        COOKIE.store(cookie.to_bits(), Ordering::SeqCst);
        OVER.store(statistics().grace_periods, Ordering::SeqCst);
    }
    CHILD.store(child, Ordering::SeqCst);
}

/// The thread that leads a grace period goes on with it in a child that a handler has forked.
#[test]
fn a_leader_may_be_interrupted_by_a_fork() {
    if in_own_process("forks::a_leader_may_be_interrupted_by_a_fork") {
        return;
    }
    // SAFETY: the handler is a function of this program.
    unsafe { libc::signal(libc::SIGUSR1, fork_here as *const () as libc::sighandler_t) };
    // SAFETY: this process must be able to wait for children, whatever it has inherited.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let reader = Reader::start();
    let leader = std::thread::spawn(|| {
        unblock(libc::SIGUSR1);
        synchronize().unwrap();
        if CHILD.load(Ordering::SeqCst) != 0 {
            return;
        }
        let cookie = Cookie::from_bits(COOKIE.load(Ordering::SeqCst));
        let is_over = OVER.load(Ordering::SeqCst);
        let has_gone_back = statistics().grace_periods < is_over;
        let passes = cookie.wait().is_ok() && cookie.has_passed();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(has_gone_back || !passes)) };
    });
    // Longer than a leader spins.
    std::thread::sleep(Duration::from_millis(50));
    // SAFETY: the thread exists: it waits for the reader.
    assert_eq!(unsafe { libc::pthread_kill(leader.as_pthread_t(), libc::SIGUSR1) }, 0);
    let begin = Instant::now();
    while CHILD.load(Ordering::SeqCst) == -1 {
        assert!(begin.elapsed() < Duration::from_secs(20), "no thread has forked");
        std::thread::sleep(Duration::from_millis(1));
    }
    let has_succeeded =
        children::has_succeeded(CHILD.load(Ordering::SeqCst), Duration::from_secs(5));
    drop(reader);
    leader.join().unwrap();
    assert!(has_succeeded);
}

/// Unblocks a signal in the calling thread.
fn unblock(signal: i32) {
    // SAFETY: an all-zero set is valid to be filled.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is valid for writes.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: as above.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: the set is valid.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut()) };
}
