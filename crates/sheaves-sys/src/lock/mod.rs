//! A sleeping lock for slow paths. Its states are those of its [`Word`].
//!
//! The prepare handler of a fork takes the lock, so that no thread is changing the guarded data.
//! Then the forking thread may re-enter it: handlers of other libraries, which run in between, may
//! allocate. A thread may fork while it holds a lock itself, in a signal handler. The fork's
//! handlers skip that lock, and the critical section ends by itself in parent and child. Both rules
//! need to know the owner at every instruction, so it is in the word.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{Ordering, compiler_fence};

use crate::{fork, futex, tls};

pub mod bits;
mod steps;
pub(crate) mod word;

pub use steps::{STEPS_MAX, restart_steps, step};
pub use word::Word;

/// A value guarded by a futex lock of 8 bytes. `const`-constructible, never allocates.
///
/// Not recursive, except as [`Lock::acquire`] says. Not async-signal-safe. Memory: a release
/// synchronises with the next acquisition.
#[derive(Debug)]
pub struct Lock<T> {
    pub(crate) word: Word,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives access to one thread at a time, so sending T suffices.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: the lock owns its value.
unsafe impl<T: Send> Send for Lock<T> {}

/// Access to the value while the lock is held; releases the lock when dropped.
#[derive(Debug)]
#[must_use = "the lock is given back at once"]
pub struct Held<'a, T> {
    lock: &'a Lock<T>,
    outer: steps::Outer,
}

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Lock<T> {
        Lock { word: Word::new(), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock: spins briefly, then sleeps.
    #[inline]
    pub fn lock(&self) -> Held<'_, T> {
        fork::run_pending_handlers();
        count(1);
        if !self.word.try_acquire() && !self.word.is_forking() {
            self.word.acquire_slow(futex::wait);
        }
        Held { lock: self, outer: steps::begin() }
    }

    /// Takes the lock if it is free now; never waits and makes no system call.
    #[inline]
    pub fn try_lock(&self) -> Option<Held<'_, T>> {
        fork::run_pending_handlers();
        count(1);
        let is_ours =
            self.word.try_acquire() || self.word.is_forking() || self.word.try_take_over();
        if is_ours {
            return Some(Held { lock: self, outer: steps::begin() });
        }
        count(-1);
        None
    }

    /// Takes the lock for a fork, in its prepare handler; ends with [`Lock::release`].
    ///
    /// From then on [`Lock::lock`] and [`Lock::try_lock`] of the same thread re-enter it at once.
    /// If the thread holds the lock already, or there is no other thread ([`fork::is_alone`]), this
    /// does nothing, and neither does [`Lock::release`]. Nor where the fork could not be prepared.
    ///
    /// Aborts in a child whose fork was not prepared if another thread held the lock: what it
    /// guards may be half changed.
    pub fn acquire(&self) {
        if fork::is_alone() {
            return;
        }
        fork::run_pending_handlers();
        if fork::attempt::acquire(&self.word) && self.word.has_owner_died() {
            fork::die_unprepared();
        }
    }

    /// True when a fork of this thread holds the lock. Only then are the data consistent, and a
    /// handler may read them.
    pub fn is_held_for_fork(&self) -> bool {
        self.word.is_forking()
    }

    /// True when the calling thread holds the lock, by itself or for a fork.
    pub fn is_held_here(&self) -> bool {
        self.word.is_owned_here()
    }

    /// Releases, in the parent or in the child, a lock that [`Lock::acquire`] has taken for the
    /// fork.
    ///
    /// # Safety
    /// No guard that this thread took since then is alive.
    pub unsafe fn release(&self) {
        // SAFETY: the same contract.
        unsafe { self.word.release_after_fork() };
    }
}

impl<T> Held<'_, T> {
    /// True when the lock was taken over from a thread that is not in this process. Then the value
    /// may be half changed. For locks that no fork handler takes.
    pub fn has_owner_died(&self) -> bool {
        self.lock.word.has_owner_died()
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a `Held` exists only while this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: a `Held` exists only while this thread holds the lock, and it is unique: a fork
        // that holds the lock, too, has no reference.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        steps::end(&self.outer);
        // A lock that a fork holds is released by the fork's handlers.
        if !self.lock.word.is_forking() {
            // SAFETY: this guard was made by `lock` in this thread and dies here.
            unsafe { self.lock.word.release() };
        }
        count(-1);
    }
}

/// Aborts the process if the calling thread holds a lock, in builds with debug assertions. For code
/// that must hold none, since it calls code of the program, starts a thread, or makes a long system
/// call: a fork would wait for the lock, or other locks be taken in another order.
#[inline]
#[track_caller]
pub fn assert_none_held() {
    if cfg!(debug_assertions) && is_any_held_here() {
        let place = core::panic::Location::caller();
        crate::report::die(format_args!("{place}: a lock is held, and none may be"));
    }
}

/// True while the calling thread holds a lock that it has taken by [`Lock::lock`] or
/// [`Lock::try_lock`]: then it must not call code of the program.
pub fn is_any_held_here() -> bool {
    tls::locks() != 0
}

/// Adds to the number of guards of the thread: before it takes a lock, and after it has released
/// it, so that a signal handler that forks sees it.
#[inline]
fn count(change: i8) {
    // SeqCst, both, for the compiler alone: a handler sees the steps in their order.
    compiler_fence(Ordering::SeqCst);
    tls::set_locks(tls::locks().wrapping_add_signed(change));
    compiler_fence(Ordering::SeqCst);
}
