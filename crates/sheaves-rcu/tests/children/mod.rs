//! Children of forks, which end in time or are killed. Shared by several test programs.

use core::time::Duration;
use std::time::Instant;

/// Runs `body` in the child of a fork; true if it returned true there in time.
pub(crate) fn in_child(limit: Duration, body: impl FnOnce() -> bool) -> bool {
    // SAFETY: this process must be able to wait for children, whatever it has inherited.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: the child runs `body` and ends by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let status = if body() { 0 } else { 1 };
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(status) };
    }
    has_succeeded(child, limit)
}

/// True if a child of this process has ended successfully and in time. Otherwise it is killed.
pub(crate) fn has_succeeded(child: i32, limit: Duration) -> bool {
    let begin = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: waits for a child of this process.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if ended != 0 {
            assert_eq!(ended, child);
            println!("child {child}: status {status:#x} after {:?}", begin.elapsed());
            return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
        }
        if begin.elapsed() >= limit {
            println!("child {child}: killed after {limit:?}");
            // SAFETY: a child that was not waited for yet. The next round finds its end.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: it ends at once.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
