//! Memory barriers in the other threads of this process: `membarrier(2)`, Linux 5.10 for the rseq
//! form.
//!
//! Registered when the object is loaded; children of a fork inherit that. All calls keep `errno`.
//! In a sandbox every one is refused without being made, see [`crate::sandbox`].

use crate::{errno, sandbox};

/// What a thread may do to reach other threads, and the slots that they use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nothing: it allocates, frees, counts, reads or defers. It reaches its own slot.
    Quiet,
    /// Call membarrier: the program has called this by its name, or it is the library's thread.
    Interrupts,
}

const CMD_PRIVATE_EXPEDITED: i32 = 1 << 3;
const CMD_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;
const CMD_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 7;
const CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 8;

fn membarrier(command: i32) -> libc::c_long {
    if sandbox::is_entered() {
        return -1;
    }
    // SAFETY: the call takes integers only and touches no memory of ours.
    errno::preserve(|| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) })
}

/// Announces that this process will use [`fence_all`]. False where the kernel or seccomp refuses.
#[must_use]
pub fn register_fence_all() -> bool {
    membarrier(CMD_REGISTER_PRIVATE_EXPEDITED) == 0
}

/// Makes every thread of this process, including the caller, pass a full fence.
///
/// When it has returned true, every thread has passed a full fence at some point of its program
/// order during this call. It interrupts every CPU that runs this process: less than a microsecond
/// where none does, 5-10 us in a virtual machine. False, without effect, where it is refused.
#[must_use]
pub fn fence_all() -> bool {
    membarrier(CMD_PRIVATE_EXPEDITED) == 0
}

/// [`register_fence_all`] for [`abort_sections`].
#[must_use]
pub fn register_abort_sections() -> bool {
    membarrier(CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0
}

/// Aborts every rseq critical section that runs in another thread of this process.
///
/// When it has returned true, every critical section that began before the call either has
/// committed, and its stores are visible here, or will not commit. It does not change the slot
/// number of any thread: a section that starts afterwards must re-read what the caller has changed.
/// Costs, and fails, like [`fence_all`].
#[must_use]
pub fn abort_sections() -> bool {
    membarrier(CMD_PRIVATE_EXPEDITED_RSEQ) == 0
}

#[cfg(test)]
#[path = "../tests/unit/membarrier.rs"]
mod tests;
