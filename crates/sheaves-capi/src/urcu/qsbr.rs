//! The flavour whose readers are quiet at points of their own choice.
//!
//! A thread that is *online* has one read section open from one quiescent state to the next; going
//! offline ends it. Inside of it reading costs nothing. A thread that is not online, because it has
//! never registered, reads by sections like any other.
//!
//! Waiting for readers, in whatever flavour, is a quiescent state of the thread that waits.

use core::sync::atomic::{Ordering, compiler_fence};

use sheaves_rcu::raw;
use sheaves_sys::tls;

/// Is the calling thread online?
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

/// Without a place for the mark no thread is online: all read by sections.
#[cfg(not(target_arch = "x86_64"))]
fn is_online() -> bool {
    let _same_file_for_all = tls::no_reader();
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn set_online(_: bool) {
    // The section that would mark it is left at once.
    // SAFETY: entered by the caller just before.
    unsafe { raw::unlock() };
}

/// Goes online: the thread reads from now on. Does nothing where it is.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_qsbr_thread_online() {
    if !is_online() {
        raw::lock();
        // After that: a handler in between opens a section of its own.
        set_online(true);
    }
}

/// Goes offline: the thread has nothing of what it has read any more. Does nothing where it is.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_qsbr_thread_offline() {
    if is_online() {
        set_online(false);
        // SeqCst, for the compiler alone: a handler in between opens a section of its own.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: entered when the thread went online.
        unsafe { raw::unlock() };
    }
}

/// A point at which the thread has nothing of what it has read any more.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_qsbr_quiescent_state() {
    if is_online() {
        // Offline in between: a signal handler that finds the thread online opens no section.
        sheaves_urcu_qsbr_thread_offline();
        sheaves_urcu_qsbr_thread_online();
    }
}

/// Nothing to do in a thread that is online.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_qsbr_read_lock() {
    if !is_online() {
        raw::lock();
    }
}

/// Nothing to do in a thread that is online.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_qsbr_read_unlock() {
    if !is_online() {
        // SAFETY: entered by the read lock before this; a thread changes neither way in between.
        unsafe { raw::unlock() };
    }
}

/// Runs what waits for readers, with the thread offline.
pub(super) fn offline<R>(body: impl FnOnce() -> R) -> R {
    let was_online = is_online();
    sheaves_urcu_qsbr_thread_offline();
    let result = body();
    if was_online {
        sheaves_urcu_qsbr_thread_online();
    }
    result
}
