//! A real seccomp filter that refuses system calls, for a thread and everything that it starts.

use std::io;

/// Builds the program of a filter that answers `calls` with `errno` and allows the rest.
///
/// The architecture is not checked: the filter is not for security, and a test makes only native
/// calls.
pub(crate) fn program(calls: &[libc::c_long], errno: i32) -> Vec<libc::sock_filter> {
    const NUMBER_OFFSET: u32 = 0;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let refusal = libc::SECCOMP_RET_ERRNO | (errno as u32 & libc::SECCOMP_RET_DATA);
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = vec![line(load, 0, 0, NUMBER_OFFSET)];
    for call in calls {
        program.push(line(equal, 0, 1, *call as u32));
        program.push(line(answer, 0, 0, refusal));
    }
    program.push(line(answer, 0, 0, libc::SECCOMP_RET_ALLOW));
    program
}

/// Installs a filter on the calling thread; its child threads and processes inherit it.
///
/// Only makes two system calls, so it may run between fork and exec.
pub(crate) fn install(program: &[libc::sock_filter]) -> io::Result<()> {
    let program =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: integers only.
    let no_new = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if no_new != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program is valid for its length, and the kernel copies it.
    let status = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
