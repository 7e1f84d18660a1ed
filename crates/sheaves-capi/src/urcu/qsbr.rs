//! liburcu's QSBR flavour: readers announce quiescent states.
//!
//! A thread that is *online* has one read section open from one quiescent state to the next; going
//! offline ends it. Read lock and unlock inside it cost nothing. A thread that is not online,
//! because it has never registered, reads by sections as in the other flavours.
//!
//! A wait for readers, in any flavour, is a quiescent state of the waiting thread.

use core::sync::atomic::{Ordering, compiler_fence};

use sheaves_rcu::raw;
use sheaves_sys::tls;

/// True when the calling thread is online.
#[cfg(target_arch = "x86_64")]
fn is_online() -> bool {
    let area = tls::thread_area();
    // SAFETY: the area belongs to this thread, lives as long as it, and has no other reference.
    unsafe { (*area).is_online != 0 }
}

#[cfg(target_arch = "x86_64")]
fn set_online(is_online: bool) {
    let area = tls::thread_area();
    // SAFETY: the area belongs to this thread, lives as long as it, and has no other reference.
    unsafe { (*area).is_online = u32::from(is_online) };
}

/// No thread-local word for this flag: threads are never online and read by sections.
#[cfg(not(target_arch = "x86_64"))]
fn is_online() -> bool {
    let _same_file_for_all = tls::no_reader();
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn set_online(_: bool) {
    // Ends the section at once: it cannot be marked as that of an online thread.
    // SAFETY: entered by the caller just before.
    unsafe { raw::unlock() };
}

/// Makes the thread a reader. Does nothing if it is online.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_qsbr_thread_online() {
    if !is_online() {
        raw::lock();
        // After `lock`: a handler in between opens a section of its own.
        set_online(true);
    }
}

/// The thread no longer uses what it has read, and stops being a reader. Does nothing if it is
/// offline.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_qsbr_thread_offline() {
    if is_online() {
        set_online(false);
        // SeqCst, for the compiler only: a handler in between opens a section of its own.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: entered when the thread went online.
        unsafe { raw::unlock() };
    }
}

/// A point at which the thread no longer uses what it has read.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_qsbr_quiescent_state() {
    if is_online() {
        // Goes offline in between: a signal handler that finds the thread online opens no section.
        sheaves_urcu_qsbr_thread_offline();
        sheaves_urcu_qsbr_thread_online();
    }
}

/// Does nothing in a thread that is online.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_qsbr_read_lock() {
    if !is_online() {
        raw::lock();
    }
}

/// Does nothing in a thread that is online.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_qsbr_read_unlock() {
    if !is_online() {
        // SAFETY: entered by the matching read lock; a thread does not go online or offline in
        // between.
        unsafe { raw::unlock() };
    }
}

/// Runs `body`, which waits for readers, with the thread offline.
pub(super) fn offline<R>(body: impl FnOnce() -> R) -> R {
    let was_online = is_online();
    sheaves_urcu_qsbr_thread_offline();
    let result = body();
    if was_online {
        sheaves_urcu_qsbr_thread_online();
    }
    result
}
