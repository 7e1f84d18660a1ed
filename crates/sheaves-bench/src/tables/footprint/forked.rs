//! A child that does nothing, and shares the memory of this process until one of them writes.

use crate::harness::Failure;

/// Ends with this, or with the process.
pub(super) struct Forked(libc::pid_t);

impl Forked {
    pub(super) fn start() -> Result<Forked, Failure> {
        // SAFETY: the child calls nothing that needs a lock of another thread.
        match unsafe { libc::fork() } {
            -1 => Err(Failure::run("cannot fork a child")),
            0 => sleep(),
            child => Ok(Forked(child)),
        }
    }
}

fn sleep() -> ! {
    // SAFETY: only says that the child ends with its parent.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    loop {
        // SAFETY: the call has no precondition.
        unsafe { libc::pause() };
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        // SAFETY: the child was not waited for yet, so that the number is still its own.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        // SAFETY: the status is not asked for.
        unsafe { libc::waitpid(self.0, core::ptr::null_mut(), 0) };
    }
}
