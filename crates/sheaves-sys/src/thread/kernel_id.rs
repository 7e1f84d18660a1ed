//! Threads by the ids that the kernel gives them.

use core::sync::atomic::{AtomicBool, Ordering};

/// The kernel's id of the calling thread (`gettid`). Async-signal-safe.
///
/// Without a system call in glibc and musl. With glibc the child of a bare `clone` has the old id.
pub fn id() -> i32 {
    // Relaxed: written when the object is loaded.
    if HAS_OWNERS.load(Ordering::Relaxed) { id_of_owner() } else { id_of_kernel() }
}

fn id_of_kernel() -> i32 {
    // SAFETY: gettid has no precondition.
    unsafe { libc::gettid() }
}

/// glibc notes the owner of a recursive mutex by its id, and takes a free mutex without a system
/// call: `__owner` in `<bits/struct_mutex.h>`.
#[cfg(target_env = "gnu")]
fn id_of_owner() -> i32 {
    const OWNER_AT: usize = 8;
    let mut mutex = libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    let mutex = &raw mut mutex;
    // SAFETY: a mutex of this function, which no other thread knows.
    unsafe { libc::pthread_mutex_lock(mutex) };
    // SAFETY: inside the mutex.
    let owner = unsafe { mutex.byte_add(OWNER_AT) }.cast::<i32>();
    // SAFETY: as above, and aligned.
    let owner = unsafe { owner.read_volatile() };
    // SAFETY: locked above.
    unsafe { libc::pthread_mutex_unlock(mutex) };
    owner
}

/// Others have it at hand, or ask the kernel.
#[cfg(not(target_env = "gnu"))]
fn id_of_owner() -> i32 {
    id_of_kernel()
}

/// Owners of mutexes are as expected.
#[unsafe(link_section = ".sheaves_load")]
static HAS_OWNERS: AtomicBool = AtomicBool::new(false);

// Relaxed: as in `id`.
crate::run_when_loaded!(HAS_OWNERS.store(id_of_owner() == id_of_kernel(), Ordering::Relaxed));

/// False when no thread of this process has this id; true in a sandbox, where that cannot be asked.
/// Async-signal-safe. The kernel may give the id to another thread as soon as this one has ended.
pub fn is_alive(id: i32) -> bool {
    crate::sandbox::is_entered() || is_known_to_kernel(id)
}

/// [`is_alive`] for a thread that is about to enter a sandbox, and has said so.
pub fn is_known_to_kernel(id: i32) -> bool {
    crate::errno::preserve(|| {
        // SAFETY: signal 0 is checked and not sent.
        let status = unsafe { libc::syscall(libc::SYS_tgkill, crate::process::id(), id, 0) };
        status == 0 || crate::errno::get() != libc::ESRCH
    })
}
