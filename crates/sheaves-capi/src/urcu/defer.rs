//! `defer_rcu`: defers a function and a pointer, without a head.

use core::ffi::{c_int, c_void};

use sheaves_heap::entry::jump_with_frame;
use sheaves_heap::guard;
use sheaves_rcu::defer::{self, Head};
use sheaves_sys::report;
use sheaves_sys::stack::Frame;

use super::calls::sheaves_urcu_barrier;
use super::qsbr::sheaves_urcu_synchronize_rcu;
use crate::{boxed, unboxed};

type Function = unsafe extern "C" fn(pointer: *mut c_void);

/// A deferred function. The head is first, so that both have one address.
#[repr(C)]
struct Deferred {
    head: Head,
    function: Function,
    pointer: *mut c_void,
}

/// `defer_rcu`. Allocates 32 bytes; when memory is out it waits for a grace period and calls the
/// function itself.
///
/// # Safety
/// The function may be called with the pointer in another thread.
#[cfg_attr(any(target_arch = "aarch64", target_arch = "x86_64"), unsafe(naked))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_defer_rcu(function: Option<Function>, pointer: *mut c_void) {
    jump_with_frame!(defer_rcu_from, function, pointer)
}

/// # Safety
/// As [`sheaves_urcu_defer_rcu`].
unsafe extern "C" fn defer_rcu_from(
    function: Option<Function>,
    pointer: *mut c_void,
    frame: Frame,
) {
    let Some(function) = function else {
        report::die(format_args!("urcu: defer_rcu was called with a null function"));
    };
    guard::note_deferral(pointer.addr(), frame);
    let Ok(deferred) = boxed(Deferred { head: Head::new(), function, pointer }) else {
        sheaves_urcu_synchronize_rcu();
        // SAFETY: the contract.
        return unsafe { function(pointer) };
    };
    // SAFETY: fresh memory with an idle head, not used until the callback.
    unsafe { defer::call_rcu(deferred.cast::<Head>(), call) };
}

/// # Safety
/// The head is that of a `Deferred` made by [`boxed`].
unsafe extern "C" fn call(head: *mut Head) {
    // SAFETY: deferred by `defer_rcu`, and called once.
    let Deferred { function, pointer, .. } = unsafe { unboxed(head.cast::<Deferred>()) };
    // SAFETY: the contract of `defer_rcu`.
    unsafe { function(pointer) };
}

exports! {
    /// `rcu_defer_register_thread`: does nothing.
    sheaves_urcu_defer_register_thread() -> c_int = 0;
    /// `rcu_defer_unregister_thread`: waits for everything deferred, as in liburcu.
    sheaves_urcu_defer_unregister_thread() = sheaves_urcu_barrier();
    /// `rcu_defer_barrier`: waits for everything deferred.
    sheaves_urcu_defer_barrier() = sheaves_urcu_barrier();
    /// `rcu_defer_barrier_thread`: the same.
    sheaves_urcu_defer_barrier_thread() = sheaves_urcu_barrier();
}
