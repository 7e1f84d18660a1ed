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

/// True when the calling thread is online. Without a thread-local word for this flag, threads are
/// never online and read by sections.
fn is_online() -> bool {
    tls::online() != 0
}

exports! {
    /// Makes the thread a reader. Does nothing if it is online.
    sheaves_urcu_qsbr_thread_online() = if !is_online() {
        raw::lock();
        // After `lock`: a handler in between opens a section of its own.
        tls::set_online(1);
        if !is_online() {
            // It cannot be marked as the section of an online thread.
            // SAFETY: entered above.
            unsafe { raw::unlock() };
        }
    };
    /// The thread no longer uses what it has read, and stops being a reader. Does nothing if it is
    /// offline.
    sheaves_urcu_qsbr_thread_offline() = if is_online() {
        tls::set_online(0);
        // SeqCst, for the compiler only: a handler in between opens a section of its own.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: entered when the thread went online.
        unsafe { raw::unlock() };
    };
    /// A point at which the thread no longer uses what it has read. Goes offline in between: a
    /// signal handler that finds the thread online opens no section.
    sheaves_urcu_qsbr_quiescent_state() = offline(|| ());
    /// Does nothing in a thread that is online.
    sheaves_urcu_qsbr_read_lock() = if !is_online() {
        raw::lock();
    };
    /// Does nothing in a thread that is online.
    sheaves_urcu_qsbr_read_unlock() = if !is_online() {
        // SAFETY: entered by the matching read lock; a thread does not go online or offline in
        // between.
        unsafe { raw::unlock() };
    };
}

/// Runs `body` with the thread offline.
pub(super) fn offline<R>(body: impl FnOnce() -> R) -> R {
    let was_online = is_online();
    sheaves_urcu_qsbr_thread_offline();
    let result = body();
    if was_online {
        sheaves_urcu_qsbr_thread_online();
    }
    result
}
