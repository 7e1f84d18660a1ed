//! The proof that a thread reads.

use crate::fences;
use crate::reader::{self, Word};

/// A read section of the default domain. It ends when the guard is dropped.
///
/// What was reachable when the section began stays valid until it ends. Guards nest, and may be
/// dropped in any order; the section lasts as long as one of them. A guard belongs to its thread.
/// One that is never dropped ([`core::mem::forget`]) holds up all grace periods for good, even when
/// its thread has ended, since others may have what was found under it. That is reported.
/// More than 2^32 open sections of a thread end the process.
#[derive(Debug)]
#[must_use = "the read section ends when the guard is dropped"]
pub struct Guard {
    /// A raw pointer, so that a guard is neither sent nor shared.
    word: Word,
}

/// Begins a read section.
///
/// Two loads and a store for the outermost one, no atomic instruction, no fence. Works in any
/// thread at any time without registration: in threads that C has made, in signal handlers, in
/// destructors of thread-local storage. Never blocks. Sections that are open during a fork stay
/// open in the child for the forking thread.
///
/// ```
/// let outer = sheaves_rcu::read();
/// let inner = sheaves_rcu::read();
/// drop(outer);
/// assert!(sheaves_rcu::is_reading());
/// drop(inner);
/// assert!(!sheaves_rcu::is_reading());
/// ```
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
pub fn read() -> Guard {
    Guard { word: reader::enter() }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: entered by `read`, in this thread, and left here only.
        unsafe { reader::leave(self.word) };
    }
}

/// Tells that the calling thread will not read for a while: an extended quiescent state, which its
/// next section ends. Nothing happens inside a read section of the default domain.
///
/// A grace period has to interrupt the processors that run the process unless every thread that has
/// read before has since deferred something, asked for a grace period, or ended, or is in such a
/// state. So it pays before a thread that has read a lot goes to sleep for long, in a program that
/// defers much. Who waits for a grace period, has just filled a sheaf with deferred objects, or has
/// read no more than 256 times so far, is in such a state anyway. A load and a store, and a fence
/// in the next section. Never blocks. Not for signal handlers: one that comes while a section
/// begins would leave that without its fence.
///
/// ```
/// drop(sheaves_rcu::read());
/// sheaves_rcu::enter_idle();
/// std::thread::park_timeout(std::time::Duration::from_millis(1));
/// // It may read again at any time.
/// drop(sheaves_rcu::read());
/// ```
#[inline]
pub fn enter_idle() {
    fences::enter_idle();
}

/// True while the calling thread is inside a read section of the default domain.
#[must_use]
pub fn is_reading() -> bool {
    reader::is_reading()
}

/// Read sections without a guard, for faces in other languages.
pub mod raw {
    use core::sync::atomic::AtomicU64;

    use crate::reader;

    /// What an outermost section copies to the word of its thread, for faces that inline the fast
    /// path: [`lock`] and [`unlock`] say what else it takes. To be read, never written.
    pub const SEQUENCE: &AtomicU64 = &reader::GLOBAL.0;

    /// Begins a read section, see [`crate::read`]. Ends with [`unlock`]; a thread that ends without
    /// it, killed or by `pthread_exit`, leaves the section open for good, which is reported.
    #[inline(always)]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock() {
        let _ = reader::enter();
    }

    /// Ends the innermost read section.
    ///
    /// # Safety
    /// The calling thread has called [`lock`] more often than this.
    #[inline(always)]
    pub unsafe fn unlock() {
        // SAFETY: the thread's word is that of its sections; a thread without one, or whose word
        // came after the section began, has its section counted elsewhere, which `leave` knows.
        unsafe { reader::leave_innermost() };
    }
}
