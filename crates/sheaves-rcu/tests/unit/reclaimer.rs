//! Tests of private items of `defer/work/reclaimer`.

extern crate std;
use super::*;
use core::time::Duration;
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
    let (begin, mut status) = (Instant::now(), 0);
    // SAFETY: polls the child.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if begin.elapsed() > Duration::from_secs(20) {
            // SAFETY: the child exists: it was not waited for yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0);
}
