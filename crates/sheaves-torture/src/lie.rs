//! A kernel that lies: membarrier says that all threads have fenced, and none has.
//!
//! A seccomp filter answers the call with "error 0", which is success. So the real library runs
//! without the one thing that it relies on.

use std::io;

/// Where the number of the call, and its first argument, stand in what a filter sees.
const NUMBER: u32 = 0;
const ARGUMENT: u32 = 16;
/// The command of membarrier that aborts restartable sequences, by which slots are drained.
const ABORT_SEQUENCES: u32 = 1 << 7;

/// From now on membarriers do nothing in this thread and those that it starts. Cannot be undone.
///
/// # Errors
/// Where the process may not set filters.
pub(crate) fn about_membarriers() -> io::Result<()> {
    let is_call = line(EQUAL, 0, 1, libc::SYS_membarrier as u32);
    install(&[line(LOAD, 0, 0, NUMBER), is_call, SUCCESS, ALLOW])
}

/// The same for the membarriers alone by which slots are drained: those of readers are real.
///
/// # Errors
/// As [`about_membarriers`].
pub(crate) fn about_drains() -> io::Result<()> {
    let is_call = line(EQUAL, 0, 3, libc::SYS_membarrier as u32);
    let is_command = line(EQUAL, 0, 1, ABORT_SEQUENCES);
    let (number, argument) = (line(LOAD, 0, 0, NUMBER), line(LOAD, 0, 0, ARGUMENT));
    install(&[number, is_call, argument, is_command, SUCCESS, ALLOW])
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const ANSWER: u32 = libc::BPF_RET | libc::BPF_K;
const SUCCESS: libc::sock_filter = line(ANSWER, 0, 0, libc::SECCOMP_RET_ERRNO);
const ALLOW: libc::sock_filter = line(ANSWER, 0, 0, libc::SECCOMP_RET_ALLOW);

/// A line of a filter; `jt` and `jf` are how many lines are skipped where a test holds or fails.
const fn line(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn install(lines: &[libc::sock_filter]) -> io::Result<()> {
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
