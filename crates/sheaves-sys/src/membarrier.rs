//! Fences in the other threads of this process: `membarrier(2)`, Linux 5.10 for the rseq form.

const CMD_QUERY: i32 = 0;
const CMD_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 7;
const CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 8;

fn membarrier(command: i32) -> libc::c_long {
    // SAFETY: the call takes integers only and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// The commands that this kernel (and its seccomp filter) allows, as a bit set; 0 for none.
#[must_use]
pub fn commands() -> u32 {
    u32::try_from(membarrier(CMD_QUERY)).unwrap_or(0)
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
    fn registered_fence_works_where_offered() {
        if commands() & CMD_PRIVATE_EXPEDITED_RSEQ.cast_unsigned() != 0 {
            assert!(register_abort_sections());
            assert!(abort_sections());
        }
    }
}
