//! Memory barriers in the other threads of this process: `membarrier(2)`, Linux 5.10 for the rseq
//! form.
//!
//! All calls keep `errno`, also when the kernel refuses: a reader in a signal handler may make the
//! first call.

const CMD_QUERY: i32 = 0;
const CMD_GLOBAL: i32 = 1 << 0;
const CMD_PRIVATE_EXPEDITED: i32 = 1 << 3;
const CMD_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;
const CMD_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 7;
const CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 8;

fn membarrier(command: i32) -> libc::c_long {
    // SAFETY: the call takes integers only and touches no memory of ours.
    crate::errno::preserve(|| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) })
}

/// The commands that this kernel (and its seccomp filter) allows, as a bit set; 0 for none.
#[must_use]
pub fn commands() -> u32 {
    u32::try_from(membarrier(CMD_QUERY)).unwrap_or(0)
}

/// Announces that this process will use [`fence`]. False where the kernel or seccomp refuses.
///
/// The registration belongs to the address space: a child of `fork` has to repeat it.
#[must_use]
pub fn register_fence() -> bool {
    membarrier(CMD_REGISTER_PRIVATE_EXPEDITED) == 0
}

/// Makes every thread of this process, including the caller, pass a full fence.
///
/// When it has returned true, every thread has passed a full fence at some point of its program
/// order between the begin and the end of this call. It interrupts every CPU that runs this
/// process: it takes less than a microsecond where none does, 5-10 us in a virtual machine. False
/// (with no effect) where the kernel or a seccomp filter refuses.
#[must_use]
pub fn fence() -> bool {
    membarrier(CMD_PRIVATE_EXPEDITED) == 0
}

/// Does what [`fence`] does, in milliseconds, where that is refused: by the global command, or by
/// running on every CPU in turn.
///
/// Running on every CPU suffices because the scheduler passes a full fence before it runs another
/// thread on a CPU. False where this is refused, too, or where the caller may not run on a CPU that
/// is online, since another thread of this process may be allowed to (cpusets).
#[must_use]
pub fn fence_slowly() -> bool {
    membarrier(CMD_GLOBAL) == 0 || crate::errno::preserve(visit_every_cpu)
}

fn visit_every_cpu() -> bool {
    let Some(before) = crate::topology::Affinity::current() else { return false };
    // Every thread that ran on a CPU that is offline now has left it since the call began.
    let is_fenced = |cpu_id| {
        let only = crate::topology::Affinity::only(cpu_id);
        only.is_some_and(|only| only.bind()) || !crate::topology::is_online(cpu_id)
    };
    let are_all = (0..crate::topology::possible_cpus()).all(is_fenced);
    before.bind() && are_all
}

/// [`register_fence`] for [`abort_sections`].
#[must_use]
pub fn register_abort_sections() -> bool {
    membarrier(CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0
}

/// Aborts every rseq critical section that runs in another thread of this process.
///
/// When it has returned true, every critical section that began before the call either has
/// committed, and its stores are visible here, or will not commit. It does not change the slot
/// number of any thread: a section that starts afterwards must re-read what the caller has changed.
/// It interrupts every CPU that runs this process, which takes microseconds. False (with no effect)
/// where the kernel or a seccomp filter refuses.
#[must_use]
pub fn abort_sections() -> bool {
    membarrier(CMD_PRIVATE_EXPEDITED_RSEQ) == 0
}

#[cfg(test)]
#[path = "../tests/unit/membarrier.rs"]
mod tests;
