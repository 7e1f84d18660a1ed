//! Fences in the other threads of this process: `membarrier(2)`, Linux 5.10 for the rseq form.
//!
//! All calls keep `errno`, also where the kernel refuses: readers in signal handlers may be the
//! first who ask.

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

/// Announces that this process will use [`fence`]. False where it is not to be had.
///
/// The registration belongs to the address space: a child of `fork` has to repeat it.
#[must_use]
pub fn register_fence() -> bool {
    membarrier(CMD_REGISTER_PRIVATE_EXPEDITED) == 0
}

/// Makes every other thread of this process pass a full fence, and the caller, too.
///
/// After it has returned true there is a point in the program order of every thread, between begin
/// and end of this call, at which it has passed a full fence. Interrupts every processor that runs
/// this process: from less than a microsecond where none does to 5-10 in a virtual machine.
/// False (with no effect) where the kernel or a seccomp filter refuses.
#[must_use]
pub fn fence() -> bool {
    membarrier(CMD_PRIVATE_EXPEDITED) == 0
}

/// [`fence`] where that is refused: by waiting for every processor, or by visiting each.
///
/// Milliseconds. The visit relies on the fact that the scheduler passes a full fence before it
/// runs another thread on a processor. False where that is refused, too: also where the caller may
/// not run on a processor that is on, since another thread of this process may (cpusets).
#[must_use]
pub fn fence_slowly() -> bool {
    if membarrier(CMD_GLOBAL) == 0 {
        return true;
    }
    crate::errno::preserve(visit_every_cpu)
}

fn visit_every_cpu() -> bool {
    let Some(before) = crate::topology::Affinity::current() else { return false };
    // Whoever ran on a processor that is off now has left it since the begin of the call.
    let is_fenced = |processor| {
        let only = crate::topology::Affinity::only(processor);
        only.is_some_and(|only| only.bind()) || !crate::topology::is_online(processor)
    };
    let are_all = (0..crate::topology::possible_cpus()).all(is_fenced);
    before.bind() && are_all
}

/// Announces that this process will use [`abort_sections`]. False where it is not to be had.
///
/// The registration belongs to the address space: a child of `fork` has to repeat it.
#[must_use]
pub fn register_abort_sections() -> bool {
    membarrier(CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0
}

/// Aborts every restartable sequence that runs in another thread of this process.
///
/// After it has returned true, every sequence that began before the call has either committed
/// (and its stores are visible here) or will not commit. It does not rewrite anyone's slot
/// number: a sequence that starts afterwards must re-read what the caller has changed. Interrupts
/// every processor that runs this process: microseconds. False (with no effect) where the kernel
/// or a seccomp filter refuses.
#[must_use]
pub fn abort_sections() -> bool {
    membarrier(CMD_PRIVATE_EXPEDITED_RSEQ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_fence_works_where_offered() {
        if commands() & CMD_PRIVATE_EXPEDITED.cast_unsigned() != 0 {
            assert!(register_fence());
            assert!(fence());
        }
        assert!(fence_slowly());
    }

    #[test]
    fn a_refusal_keeps_errno() {
        crate::errno::set(7);
        assert_eq!(membarrier(-1), -1);
        assert_eq!(crate::errno::get(), 7);
    }

    #[test]
    fn registered_fence_works_where_offered() {
        if commands() & CMD_PRIVATE_EXPEDITED_RSEQ.cast_unsigned() != 0 {
            assert!(register_abort_sections());
            assert!(abort_sections());
        }
    }
}
