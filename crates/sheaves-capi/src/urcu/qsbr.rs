//! Waiting for readers, and liburcu's QSBR flavour, whose readers announce quiescent states.
//!
//! A thread that is *online* has one read section open from one quiescent state to the next; going
//! offline ends it. Read lock and unlock inside it cost nothing. A thread that is not online,
//! because it has never registered, reads by sections as in the other flavours.
//!
//! A wait for readers, in any flavour, is a quiescent state of the waiting thread.

use core::ffi::c_int;
use core::sync::atomic::{Ordering, compiler_fence};

use sheaves_rcu::{Cookie, raw};
use sheaves_sys::{report, tls};

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

pub(super) fn offline<R>(body: impl FnOnce() -> R) -> R {
    let was_online = is_online();
    sheaves_urcu_qsbr_thread_offline();
    let result = body();
    if was_online {
        sheaves_urcu_qsbr_thread_online();
    }
    result
}

/// `struct urcu_gp_poll_state`: an `unsigned long`, 64 bits here.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GpPollState {
    grace_period_id: u64,
}

const _: () = assert!(size_of::<core::ffi::c_ulong>() == size_of::<GpPollState>());

exports! {
    /// `synchronize_rcu`. Aborts the process inside a read section: the interface cannot return an
    /// error, and returning early would let the caller free what readers use.
    sheaves_urcu_synchronize_rcu() = if offline(sheaves_rcu::synchronize).is_err() {
        report::die(format_args!("urcu: synchronize_rcu inside a read section would deadlock"));
    };
    /// `rcu_read_ongoing`.
    sheaves_urcu_read_ongoing() -> c_int = c_int::from(sheaves_rcu::is_reading());
    /// `start_poll_synchronize_rcu`.
    sheaves_urcu_start_poll_synchronize_rcu() -> GpPollState =
        GpPollState { grace_period_id: Cookie::start_poll().to_bits() };
    /// `poll_state_synchronize_rcu`.
    sheaves_urcu_poll_state_synchronize_rcu(state: GpPollState) -> bool =
        Cookie::from_bits(state.grace_period_id).poll();
    /// `rcu_register_thread` of the qsbr flavour.
    sheaves_urcu_qsbr_register_thread() = sheaves_urcu_qsbr_thread_online();
    /// `rcu_unregister_thread` of the qsbr flavour.
    sheaves_urcu_qsbr_unregister_thread() = sheaves_urcu_qsbr_thread_offline();
}

/// Functions that have nothing to do in this library. Each public name stands for one of its own:
/// a program may define it itself.
macro_rules! nothing {
    ($($name:ident)*) => {
        exports! { $(
            /// Does nothing.
            $name() = ();
        )* }
    };
}

nothing! {
    sheaves_urcu_register_thread sheaves_urcu_unregister_thread
    sheaves_urcu_thread_online sheaves_urcu_thread_offline sheaves_urcu_quiescent_state
    sheaves_urcu_init sheaves_urcu_exit sheaves_urcu_defer_exit
    sheaves_urcu_before_fork sheaves_urcu_after_fork_parent sheaves_urcu_after_fork_child
}
