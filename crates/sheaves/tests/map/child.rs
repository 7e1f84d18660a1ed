//! Children of a fork, in which part of a test runs.

extern crate std;

/// Runs `body` in a child of a fork; true if it returns within some seconds.
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
        // SAFETY: ends the child if it hangs.
        unsafe { libc::alarm(10) };
        let is_good = std::panic::catch_unwind(core::panic::AssertUnwindSafe(body)).is_ok();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_good)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child only.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}
