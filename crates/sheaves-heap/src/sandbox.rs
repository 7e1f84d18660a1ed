//! What comes before a sandbox.

use sheaves_rcu::defer;
use sheaves_slab::internal::sampling;
use sheaves_sys::request;

/// To be called before the program puts itself into a sandbox (seccomp): see
/// [`sheaves_rcu::defer::before_sandbox`], which ends the library's threads and says what is
/// different from then on. Heap profiles end, too, and tools get no answer any more.
///
/// From then on the library calls `mmap`, `munmap`, `mremap`, `mprotect`, `madvise` and `futex`
/// only, in this process and its children. A child that calls `exec` begins anew. The preload
/// object calls this by itself when the program calls `prctl(PR_SET_SECCOMP)` or
/// `syscall(SYS_seccomp)`.
///
/// Waits until these threads have ended: for a second at most, or for a minute while one of them
/// runs or waits for a CPU; in a deferred call not at all. Not for signal handlers; not under locks
/// that deferred calls take. Calling it again changes nothing.
///
/// ```
/// # mod sheaves { pub use sheaves_heap as heap; }
/// sheaves::heap::before_sandbox();
/// // prctl(PR_SET_SECCOMP, ...)
/// let block = sheaves::heap::malloc(100);
/// // SAFETY: from this heap, and not used after.
/// unsafe { sheaves::heap::free(block) };
/// ```
pub fn before_sandbox() {
    if sampling::rate() != 0 {
        sampling::stop();
    }
    request::watch(None);
    defer::before_sandbox();
}
