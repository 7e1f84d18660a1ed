//! `struct rcu_flavor_struct`: the functions of a flavour, for data structures that work with any.

use core::ffi::{c_int, c_void};

use sheaves_rcu::defer::Head;

use super::calls::{self, Atfork, CallFunction};
use super::defer;
use super::qsbr::{self, GpPollState};
use crate::rcu::{sheaves_rcu_read_lock, sheaves_rcu_read_unlock};

type Plain = extern "C" fn();
type Deferred = unsafe extern "C" fn(pointer: *mut c_void);

/// The members, in liburcu's order.
#[repr(C)]
#[derive(Debug)]
pub struct Flavor {
    read_lock: Plain,
    read_unlock: Plain,
    read_ongoing: extern "C" fn() -> c_int,
    read_quiescent_state: Plain,
    update_call_rcu: unsafe extern "C" fn(*mut Head, CallFunction),
    update_synchronize_rcu: Plain,
    update_defer_rcu: unsafe extern "C" fn(Option<Deferred>, *mut c_void),
    thread_offline: Plain,
    thread_online: Plain,
    register_thread: Plain,
    unregister_thread: Plain,
    barrier: Plain,
    register_rculfhash_atfork: unsafe extern "C" fn(*mut Atfork),
    unregister_rculfhash_atfork: unsafe extern "C" fn(*mut Atfork),
    update_start_poll_synchronize_rcu: extern "C" fn() -> GpPollState,
    update_poll_state_synchronize_rcu: extern "C" fn(GpPollState) -> bool,
}

const ALL_BUT_QSBR: Flavor = Flavor {
    read_lock: sheaves_rcu_read_lock,
    read_unlock: sheaves_rcu_read_unlock,
    read_ongoing: qsbr::sheaves_urcu_read_ongoing,
    read_quiescent_state: qsbr::sheaves_urcu_quiescent_state,
    update_call_rcu: calls::sheaves_urcu_call_rcu,
    update_synchronize_rcu: qsbr::sheaves_urcu_synchronize_rcu,
    update_defer_rcu: defer::sheaves_urcu_defer_rcu,
    thread_offline: qsbr::sheaves_urcu_thread_offline,
    thread_online: qsbr::sheaves_urcu_thread_online,
    register_thread: qsbr::sheaves_urcu_register_thread,
    unregister_thread: qsbr::sheaves_urcu_unregister_thread,
    barrier: calls::sheaves_urcu_barrier,
    register_rculfhash_atfork: calls::sheaves_urcu_register_rculfhash_atfork,
    unregister_rculfhash_atfork: calls::sheaves_urcu_unregister_rculfhash_atfork,
    update_start_poll_synchronize_rcu: qsbr::sheaves_urcu_start_poll_synchronize_rcu,
    update_poll_state_synchronize_rcu: qsbr::sheaves_urcu_poll_state_synchronize_rcu,
};

/// All flavours except qsbr.
#[unsafe(no_mangle)]
pub static sheaves_urcu_flavor: Flavor = ALL_BUT_QSBR;

/// The qsbr flavour.
#[unsafe(no_mangle)]
pub static sheaves_urcu_qsbr_flavor: Flavor = Flavor {
    read_lock: qsbr::sheaves_urcu_qsbr_read_lock,
    read_unlock: qsbr::sheaves_urcu_qsbr_read_unlock,
    read_quiescent_state: qsbr::sheaves_urcu_qsbr_quiescent_state,
    thread_offline: qsbr::sheaves_urcu_qsbr_thread_offline,
    thread_online: qsbr::sheaves_urcu_qsbr_thread_online,
    register_thread: qsbr::sheaves_urcu_qsbr_register_thread,
    unregister_thread: qsbr::sheaves_urcu_qsbr_unregister_thread,
    ..ALL_BUT_QSBR
};
