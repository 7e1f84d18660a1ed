//! Reads of this process's own memory that do not fault, for reports about other threads: what they
//! use may be unmapped at any moment. Async-signal-safe except for `errno`.
//!
//! Or reads of what stays mapped, which take no system call.

use core::ptr::with_exposed_provenance;

/// Bytes that are read at once. A block is aligned to its size, and so lies in one page.
const BLOCK_BYTES: usize = 1024;
const BLOCK_WORDS: usize = BLOCK_BYTES / 8;

/// The last block that was read. About 1 KiB, so that a signal handler keeps it in a static.
#[derive(Debug)]
pub struct Memory {
    stays: bool,
    block: usize,
    words: [u64; BLOCK_WORDS],
}

impl Memory {
    /// Nothing is read yet.
    #[expect(clippy::new_without_default, reason = "one constructor is enough")]
    pub const fn new() -> Memory {
        Memory { stays: false, block: usize::MAX, words: [0; BLOCK_WORDS] }
    }

    /// For reads of what stays mapped.
    ///
    /// # Safety
    /// Each address that is read from does.
    #[cfg(target_env = "gnu")]
    pub(crate) unsafe fn that_stays() -> Memory {
        Memory { stays: true, ..Memory::new() }
    }

    pub(crate) fn forget(&mut self) {
        self.block = usize::MAX;
    }

    /// The word that contains an address. `None` if it cannot be read.
    pub(crate) fn word(&mut self, address: usize) -> Option<u64> {
        let block = address / BLOCK_BYTES * BLOCK_BYTES;
        if block != self.block {
            self.block = usize::MAX;
            if self.stays {
                // SAFETY: the word is mapped, and so is all of its page.
                self.words = unsafe { with_exposed_provenance::<[u64; BLOCK_WORDS]>(block).read() };
            } else if !read(block, &mut self.words) {
                return None;
            }
            self.block = block;
        }
        Some(self.words[(address - block) / 8])
    }

    pub(crate) fn half(&mut self, address: usize) -> Option<u32> {
        Some((self.word(address)? >> (address / 4 % 2 * 32)) as u32)
    }

    pub(crate) fn byte(&mut self, address: usize) -> Option<u8> {
        Some((self.word(address)? >> (address % 8 * 8)) as u8)
    }
}

fn read(address: usize, words: &mut [u64; BLOCK_WORDS]) -> bool {
    // The call is not one that a sandbox has to permit.
    if crate::sandbox::is_entered() {
        return false;
    }
    let iov = |base| libc::iovec { iov_base: base, iov_len: BLOCK_BYTES };
    let local = iov(words.as_mut_ptr().cast());
    let remote = iov(core::ptr::without_provenance_mut(address));
    let (call, process) = (libc::SYS_process_vm_readv, crate::process::id());
    // Words: `syscall` takes its last argument from the stack.
    let (one, no_flags): (libc::c_ulong, libc::c_ulong) = (1, 0);
    let (local, remote) = (&raw const local, &raw const remote);
    // SAFETY: `local` is valid for writes of its length; the kernel checks `remote`.
    let count = unsafe { libc::syscall(call, process, local, one, remote, one, no_flags) };
    count == BLOCK_BYTES as i64
}
