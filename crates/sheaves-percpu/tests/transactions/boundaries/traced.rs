//! A thread of another process under the control of ptrace. Also used by the tests of costs.

use core::ffi::c_void;

use super::machine::BREAKPOINT;

/// The type of libc's names of requests.
#[cfg(target_env = "musl")]
pub(crate) type Request = libc::c_int;
/// The type of libc's names of requests.
#[cfg(not(target_env = "musl"))]
pub(crate) type Request = libc::c_uint;

/// The number of a traced thread, which this process has started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traced(pub(crate) libc::pid_t);

/// A breakpoint, with the original code.
#[derive(Debug)]
pub(crate) struct Planted {
    address: usize,
    before: libc::c_long,
}

impl Traced {
    /// Lets the thread run until it stops or ends; the wait status.
    pub(crate) fn resume(self, request: Request, signal: i32) -> i32 {
        self.request(request, 0, signal as usize);
        self.wait()
    }

    /// Waits until the thread stops or ends; the wait status.
    pub(crate) fn wait(self) -> i32 {
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        let pid = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert_eq!(pid, self.0);
        status
    }

    pub(crate) fn plant(self, address: usize) -> Planted {
        let before = self.request(libc::PTRACE_PEEKTEXT, address, 0);
        let mut bytes = before.to_ne_bytes();
        bytes[..BREAKPOINT.len()].copy_from_slice(&BREAKPOINT);
        let with = libc::c_long::from_ne_bytes(bytes);
        self.request(libc::PTRACE_POKETEXT, address, with.cast_unsigned() as usize);
        Planted { address, before }
    }

    /// Removes a breakpoint. If breakpoints are closer than a word, the last one has to be removed
    /// first.
    pub(crate) fn lift(self, planted: Planted) {
        let before = planted.before.cast_unsigned() as usize;
        self.request(libc::PTRACE_POKETEXT, planted.address, before);
    }

    pub(crate) fn request(self, request: Request, address: usize, data: usize) -> libc::c_long {
        let address = core::ptr::without_provenance_mut::<c_void>(address);
        let data = core::ptr::without_provenance_mut::<c_void>(data);
        // SAFETY: libc's own variable of this thread.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above. A value that was read may be -1, so errno distinguishes errors.
        unsafe { errno.write(0) };
        // SAFETY: the thread's memory and registers are changed, not those of this process.
        let result = unsafe { libc::ptrace(request, self.0, address, data) };
        let error = std::io::Error::last_os_error();
        assert!(result != -1 || error.raw_os_error() == Some(0), "{request}: {error}");
        result
    }
}

/// In the new process: requests to be traced, and to end with the tracer.
pub(crate) fn submit() -> std::io::Result<()> {
    // SAFETY: integers only.
    let _ = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let none = core::ptr::null_mut::<c_void>();
    // SAFETY: no memory is touched.
    let status = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, none, none) };
    if status == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
