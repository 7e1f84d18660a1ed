//! A forked child, which shares the memory of this process until one of them writes.

use super::Failure;

/// Ends with this, or with the thread that started it.
pub(crate) struct Forked(libc::pid_t);

/// Ends the child when its work has returned or panicked: it must not go on as its parent.
struct EndOfChild;

impl Forked {
    /// Runs `work` in a child. The child has the calling thread alone, so `work` must need no lock
    /// that another thread may hold.
    pub(crate) fn start(work: impl FnOnce()) -> Result<Forked, Failure> {
        // SAFETY: the call has no precondition; the C library restores its own locks in the child.
        match unsafe { libc::fork() } {
            -1 => Err(Failure::run("cannot fork a child")),
            0 => {
                let _end = EndOfChild;
                // SAFETY: only says that the child ends with its parent.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                work();
                end_child()
            }
            child => Ok(Forked(child)),
        }
    }

    /// A child that does nothing.
    pub(crate) fn idle() -> Result<Forked, Failure> {
        Forked::start(|| {
            loop {
                // SAFETY: the call has no precondition.
                unsafe { libc::pause() };
            }
        })
    }
}

impl Drop for EndOfChild {
    fn drop(&mut self) {
        end_child()
    }
}

fn end_child() -> ! {
    // SAFETY: the call has no precondition, and runs nothing that the parent has registered.
    unsafe { libc::_exit(0) }
}

impl Drop for Forked {
    fn drop(&mut self) {
        // SAFETY: the child was not waited for yet, so that the number is still its own.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        // SAFETY: the status is not asked for.
        unsafe { libc::waitpid(self.0, core::ptr::null_mut(), 0) };
    }
}
