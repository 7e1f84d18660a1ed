//! Deferring a call: the fast path, and a closure as a box with a head in it.

use alloc::boxed::Box;

use sheaves_percpu::Access;
use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{push, push_slow};

use super::work::calls::{self, Exchange, WORD};
use super::work::requests::{arm_age, start_batch};
use super::work::{domains, driver};
use crate::grace::srcu::Srcu;
use crate::heads::{Call, Head};

/// How often a push starts over because other threads have changed the slot meanwhile.
const ATTEMPTS: u32 = 16;

/// Calls `call` with `head` after a grace period, like the kernel's function of this name.
///
/// Costs about as much as a `free`: no atomic instruction, no lock, no allocation. Once in 124
/// calls, and after a pause, it takes a short lock, and may wake the library's thread or start it,
/// for which libc allocates. May be called inside a read section; not for signal handlers.
/// [`super`] says in which thread, in which order and when the callback runs.
///
/// A head that is queued already is reported in one line, and not queued again.
///
/// # Safety
/// `head` is valid, and zero or idle. Until the call only readers use the object that contains it.
/// `call` may be called with it in another thread.
#[inline]
pub unsafe fn call_rcu(head: *mut Head, call: Call) {
    // SAFETY: valid by the contract.
    let claimed = unsafe { &*head }.claim(call as *const () as usize);
    if !claimed {
        return;
    }
    // SAFETY: a head is aligned to 8, so its address is even; until the call it is this crate's.
    if !unsafe { push(Access::get(), WORD, head.expose_provenance()) } {
        call_slow(head);
    }
}

/// [`call_rcu`], then [`super::flush`] (the kernel's `call_rcu_hurry`).
///
/// # Safety
/// As [`call_rcu`].
pub unsafe fn call_hurry(head: *mut Head, call: Call) {
    // SAFETY: the same contract.
    unsafe { call_rcu(head, call) };
    super::barrier::flush();
}

#[cold]
#[inline(never)]
fn call_slow(head: *mut Head) {
    let sealed = 'deferred: {
        for _ in 0..ATTEMPTS {
            if !attach() {
                break;
            }
            // SAFETY: as in `call_rcu`.
            if unsafe { push_slow(WORD, head.expose_provenance()) } {
                return;
            }
            match calls::exchange(head) {
                Exchange::Changed => {}
                Exchange::NoSheaf => break,
                Exchange::Done(sealed) => break 'deferred sealed,
            }
        }
        let linked = calls::link(head);
        driver::note_deferred();
        Some(linked)
    };
    // Without locks.
    arm_age();
    if let Some(batch) = sealed {
        start_batch(batch);
    }
}

#[repr(C)]
struct Closure<F> {
    head: Head,
    function: F,
}

/// Calls `function` after a grace period.
///
/// Allocates a box with the program's allocator; otherwise like [`call_rcu`].
///
/// ```
/// # mod sheaves { pub use sheaves_rcu as rcu; }
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// static IS_DONE: AtomicBool = AtomicBool::new(false);
/// sheaves::rcu::defer(|| IS_DONE.store(true, Ordering::Relaxed));
/// sheaves::rcu::defer::barrier()?;
/// assert!(IS_DONE.load(Ordering::Relaxed));
/// # Ok::<(), sheaves::rcu::defer::BarrierError>(())
/// ```
pub fn defer<F: FnOnce() + Send + 'static>(function: F) {
    let (head, call) = boxed(function);
    // SAFETY: the head of a box that only this call owns, and the closure is `Send`.
    unsafe { call_rcu(head, call) };
}

/// A closure in a box that begins with a head, and the callback for it.
fn boxed<F: FnOnce()>(function: F) -> (*mut Head, Call) {
    (Box::into_raw(Box::new(Closure { head: Head::new(), function })).cast(), run::<F>)
}

unsafe extern "C" fn run<F: FnOnce()>(head: *mut Head) {
    // SAFETY: the head of a box from `defer`, which is passed here once.
    let closure = unsafe { Box::from_raw(head.cast::<Closure<F>>()) };
    (closure.function)();
}

impl Srcu {
    /// Calls `call` with `head` when all sections of this domain that are open have ended, like the
    /// kernel's `call_srcu`.
    ///
    /// Takes a short lock, which all domains share; allocates nothing. May be called inside a
    /// section; not for signal handlers. Readers of other domains, and those of
    /// [`read`](crate::read), are not waited for; but the callback runs in the same thread as those
    /// of [`call_rcu`], which also waits for [`read`](crate::read). Callbacks of a domain run in
    /// their order. [`Srcu::barrier`] waits for them, [`barrier`](super::barrier()) does not.
    ///
    /// # Safety
    /// As [`call_rcu`], for the readers of this domain.
    pub unsafe fn call(&'static self, head: *mut Head, call: Call) {
        // SAFETY: valid by the contract.
        if unsafe { &*head }.claim(call as *const () as usize) {
            domains::push(self, head);
            driver::note_deferred();
            arm_age();
        }
    }

    /// Calls `function` when all sections of this domain that are open have ended. Allocates a box
    /// with the program's allocator; otherwise like [`Srcu::call`].
    pub fn defer<F: FnOnce() + Send + 'static>(&'static self, function: F) {
        let (head, call) = boxed(function);
        // SAFETY: the head of a box that only this call owns, and the closure is `Send`.
        unsafe { self.call(head, call) };
    }
}
