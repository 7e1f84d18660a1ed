//! The mutex of the C library, which is what C programs have around their pools.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// A value guarded by a `pthread_mutex_t` of the default kind.
pub(crate) struct Mutex<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex hands out access to one thread at a time, so sending T suffices.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: a mutex that is not borrowed is not locked, and may then be moved on Linux.
unsafe impl<T: Send> Send for Mutex<T> {}

/// Access to the value; gives the mutex back when dropped.
pub(crate) struct Guard<'a, T> {
    owner: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        let mutex = UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER);
        Mutex { mutex, value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // SAFETY: initialised, and not moved while it is borrowed. The default kind does not fail.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        Guard { owner: self }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.owner.mutex.get()) };
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a guard exists only while its thread holds the mutex.
        unsafe { &*self.owner.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed alone.
        unsafe { &mut *self.owner.value.get() }
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "../tests/unit/pthread.rs"]
mod tests;
