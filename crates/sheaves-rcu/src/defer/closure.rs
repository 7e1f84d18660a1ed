//! Deferred closures: a box with a head in it.

use alloc::boxed::Box;

use super::calls::call_rcu;
use super::head::Head;

#[repr(C)]
struct Closure<F> {
    head: Head,
    function: F,
}

/// Calls `function` after a grace period.
///
/// Allocates a box with the program's allocator; otherwise like [`call_rcu`]. The closure is
/// dropped in the thread that calls it.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// static IS_DONE: AtomicBool = AtomicBool::new(false);
/// sheaves_rcu::defer(|| IS_DONE.store(true, Ordering::Relaxed));
/// sheaves_rcu::defer::barrier()?;
/// assert!(IS_DONE.load(Ordering::Relaxed));
/// # Ok::<(), sheaves_rcu::defer::BarrierError>(())
/// ```
pub fn defer<F: FnOnce() + Send + 'static>(function: F) {
    let closure = Box::into_raw(Box::new(Closure { head: Head::new(), function }));
    // SAFETY: the head is first in a box that only this call owns, and the closure is `Send`.
    unsafe { call_rcu(closure.cast(), run::<F>) };
}

unsafe extern "C" fn run<F: FnOnce()>(head: *mut Head) {
    // SAFETY: the head of a box from `defer`, which is passed here once.
    let closure = unsafe { Box::from_raw(head.cast::<Closure<F>>()) };
    (closure.function)();
}
