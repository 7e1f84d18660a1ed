//! Children of a fork, in which part of a test runs.

extern crate std;

/// When this time is over, a child that has not ended is killed.
const CHILD_MS_MAX: u32 = 20_000;

/// Runs `body` in a child of a fork; true if it returns in time.
pub(crate) fn child_ends(body: impl FnOnce()) -> bool {
    // SAFETY: the child uses only what is tested, and exits.
    status_of_child(|| unsafe { libc::fork() }, body) == 0
}

/// The status of the child that `fork` makes, after `body` has run in it.
pub(crate) fn status_of_child(
    fork: impl FnOnce() -> libc::pid_t,
    body: impl FnOnce(),
) -> libc::c_int {
    // SAFETY: this process waits for its children, whatever disposition it has inherited.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let child = fork();
    if child == 0 {
        let is_good = std::panic::catch_unwind(core::panic::AssertUnwindSafe(body)).is_ok();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_good)) };
    }
    status_within(child)
}

/// The status of a child, which may hang anywhere, also in the handlers of a fork.
pub(crate) fn status_within(child: libc::pid_t) -> libc::c_int {
    let mut status = -1;
    for _ in 0..CHILD_MS_MAX {
        // SAFETY: waits for the child only.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } != 0 {
            return status;
        }
        std::thread::sleep(core::time::Duration::from_millis(1));
    }
    // SAFETY: it has not been waited for, so the number is its own.
    unsafe { libc::kill(child, libc::SIGKILL) };
    // SAFETY: waits for the child only.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}
