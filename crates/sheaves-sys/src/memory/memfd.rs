//! A file in memory that this process shares with tools: `memfd_create(2)`.
//!
//! For the control page of `sheaves-control`, which tools open by `/proc/PID/fd`. Nothing of it is
//! left when the process ends, calls `exec` or is killed. Only its owner may open it. Its size
//! cannot change, so that memory which is mapped from it is there. All calls keep `errno`.

use core::ffi::CStr;

use crate::errno::preserve;
use crate::{process, sandbox};

/// The lowest descriptor that is used, where the limit on descriptors allows it: above those that
/// programs use by number, and below 64. From there on the kernel has to allocate a larger table,
/// and at each fork another one.
const LOWEST: i32 = 48;
/// Since Linux 6.3: the file can never be executed. Implies `MFD_ALLOW_SEALING`.
const MFD_NOEXEC_SEAL: u32 = 8;

/// Makes a sealed file of `bytes` zeros, and returns its descriptor; `None` where the kernel
/// refuses or no descriptor is free. For a moment it has the lowest free descriptor: not where
/// another thread may be opening a file.
#[must_use]
pub fn make(name: &CStr, bytes: usize) -> Option<i32> {
    if sandbox::is_entered() {
        return None;
    }
    preserve(|| {
        let made = create(name)?;
        let descriptor = prepare(made, bytes).then(|| move_up(made)).flatten();
        process::close(made);
        descriptor
    })
}

fn create(name: &CStr) -> Option<i32> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Kernels that do not know the second flag refuse it; some refuse a file without it.
    [flags | MFD_NOEXEC_SEAL, flags].into_iter().find_map(|flags| {
        // SAFETY: `name` is a C string.
        let made = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), flags) };
        i32::try_from(made).ok().filter(|made| *made >= 0)
    })
}

/// Size, owner's permissions and seals. False where something is refused.
fn prepare(descriptor: i32, bytes: usize) -> bool {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: integers only.
    let is_private = unsafe { libc::fchmod(descriptor, 0o600) } == 0;
    // Above the limit the kernel would send SIGXFSZ.
    // SAFETY: integers only.
    let is_sized = bytes as libc::rlim_t <= process::limit(libc::RLIMIT_FSIZE)
        && unsafe { libc::ftruncate(descriptor, bytes as i64) } == 0;
    // SAFETY: integers only.
    is_private && is_sized && unsafe { libc::fcntl(descriptor, libc::F_ADD_SEALS, seals) } == 0
}

/// A duplicate at a high number.
fn move_up(descriptor: i32) -> Option<i32> {
    let limit = i32::try_from(process::limit(libc::RLIMIT_NOFILE)).unwrap_or(i32::MAX);
    let lowest = LOWEST.min(limit / 4 * 3);
    // SAFETY: integers only.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, lowest) };
    (copy >= 0).then_some(copy)
}

/// Bytes of an open file whose size is sealed; `None` if it is not one. For tools.
pub fn sealed_bytes(descriptor: i32) -> Option<usize> {
    // SAFETY: integers only.
    let seals = preserve(|| unsafe { libc::fcntl(descriptor, libc::F_GET_SEALS) });
    let is_sealed = seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
    let bytes = process::status_of(descriptor)?.st_size;
    usize::try_from(bytes).ok().filter(|_| is_sealed)
}
