//! A false membarrier: it reports that all threads have run a fence, and none has.
//!
//! A seccomp filter answers the call with "error 0", which is success. So the real library runs
//! without the one guarantee that its readers rely on.

use std::io;

/// Makes membarriers do nothing in this thread and those that it starts. Cannot be undone.
///
/// # Errors
/// If the process may not set filters.
pub(super) fn install() -> io::Result<()> {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let lines = [
        // The number of the call is the first word.
        line(load, 0, 0, 0),
        line(equal, 0, 1, libc::SYS_membarrier as u32),
        line(answer, 0, 0, libc::SECCOMP_RET_ERRNO),
        line(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_ptr().cast_mut() };
    // SAFETY: integers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program is valid for its length, and the kernel copies it.
    let status = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
