//! Read sections: the guard of an open one, and the extended quiescent state.

use super::section::{self, Entered};

/// A read-side critical section of the default domain. It ends when the guard is dropped.
///
/// What was reachable when the section began stays valid until it ends. Guards nest and may be
/// dropped in any order; the section lasts until the last one is dropped. If a guard is never
/// dropped ([`core::mem::forget`]), no grace period ends any more; this is reported. More than 2^32
/// open sections in one thread abort the process.
#[derive(Debug)]
#[must_use = "the read section ends when the guard is dropped"]
pub struct Guard {
    /// A raw pointer, so that a guard is neither `Send` nor `Sync`.
    entered: Entered,
}

/// Begins a read section.
///
/// The outermost section costs two loads and a store: no atomic instruction, and no fence but in
/// the first 256 of a thread, after [`enter_idle`](crate::enter_idle), and where membarrier is
/// refused. Any thread
/// may call this at any time without registration, also in a signal handler or a destructor of
/// thread-local storage. Never blocks. The forking thread's sections stay open in the child.
///
/// ```
/// # mod sheaves { pub use sheaves_rcu as rcu; }
/// let outer = sheaves::rcu::read();
/// let inner = sheaves::rcu::read();
/// drop(outer);
/// assert!(sheaves::rcu::is_reading());
/// drop(inner);
/// assert!(!sheaves::rcu::is_reading());
/// ```
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
pub fn read() -> Guard {
    Guard { entered: section::enter() }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: entered by `read`, in this thread, and left here only.
        unsafe { section::leave(self.entered) };
    }
}

/// Read sections without a guard, for bindings of other languages.
pub mod raw {
    use core::sync::atomic::AtomicU64;

    use super::section;

    /// What an outermost section copies to its thread's state, for bindings that inline [`lock`].
    pub const SEQUENCE: &AtomicU64 = &section::GLOBAL.0;

    /// Begins a read section, see [`crate::read`]. Ends with [`unlock`]. A thread that is killed or
    /// calls `pthread_exit` before that leaves the section open for good, which is reported.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock() {
        let _ = section::enter();
    }

    /// Ends the innermost read section.
    ///
    /// # Safety
    /// The calling thread has called [`lock`] more often than [`unlock`].
    #[inline(always)]
    pub unsafe fn unlock() {
        // SAFETY: the thread's record belongs to its sections. `leave_innermost` handles sections
        // of a thread without one, or from before it had one.
        unsafe { section::leave_innermost() };
    }
}
