//! A sleeping lock for slow paths, with the halves that `fork` needs.
//!
//! State of the word (who writes it: the thread that makes the transition, nobody else):
//!
//! | value | meaning | transitions |
//! |---|---|---|
//! | 0 | free | 0 -> 1 by `lock` |
//! | 1 | held, nobody sleeps | 1 -> 0 by `unlock`; 1 -> 2 by a contender before it sleeps |
//! | 2 | held, somebody may sleep | 2 -> 0 by `unlock`, which then wakes one |
//!
//! The three-state futex lock is that of Ulrich Drepper, "Futexes Are Tricky" (2011), mutex 3.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::futex;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// Rounds of spinning before a contender sleeps; critical sections here are below 1 us.
const SPINS: u32 = 100;

/// The word of a lock. By itself for what is held for so long that no [`Lock`] may be.
///
/// Memory: `release` releases to the next `acquire`.
#[derive(Debug)]
pub struct Word(AtomicU32);

impl Word {
    /// A free one.
    #[must_use]
    pub const fn new() -> Word {
        Word(AtomicU32::new(FREE))
    }

    /// Takes the word if it is free now; never waits and makes no system call.
    #[inline]
    #[must_use]
    pub fn try_acquire(&self) -> bool {
        // Acquire pairs with the Release in `release`: we see what the last holder wrote. Relaxed
        // on failure: nothing is read then.
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the word; `sleep` is what a contender does until the word may have changed from the
    /// value that it is given.
    #[inline]
    pub fn acquire(&self, sleep: impl Fn(&AtomicU32, u32)) {
        if !self.try_acquire() {
            self.acquire_slow(sleep);
        }
    }

    #[cold]
    fn acquire_slow(&self, sleep: impl Fn(&AtomicU32, u32)) {
        for _ in 0..SPINS {
            // Relaxed: only a hint for when to try again; the exchange orders.
            if self.0.load(Ordering::Relaxed) == FREE && self.try_acquire() {
                return;
            }
            core::hint::spin_loop();
        }
        // Acquire pairs with the Release in `release`. CONTENDED also when nobody else waits:
        // the price is one needless wake-up, the gain that no sleeper is forgotten.
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            sleep(&self.0, CONTENDED);
        }
    }

    /// Gives the word back, and wakes one that sleeps.
    ///
    /// # Safety
    /// The calling thread (or, in a child of `fork`, the thread that forked) has taken it.
    #[inline]
    pub unsafe fn release(&self) {
        // Release pairs with the Acquire of the next holder.
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            futex::wake(&self.0, 1);
        }
    }

    /// In the child of a fork: is the word held by the thread that forked? Nobody else is there.
    pub fn restart_in_child(&self, is_held: bool) {
        // Relaxed: the child has one thread.
        self.0.store(if is_held { HELD } else { FREE }, Ordering::Relaxed);
    }
}

impl Default for Word {
    fn default() -> Word {
        Word::new()
    }
}

/// A value guarded by a futex lock of 4 bytes. `const`-constructible, never allocates.
///
/// Not recursive, not async-signal-safe. Memory: `unlock` releases to the next `lock`.
#[derive(Debug)]
pub struct Lock<T> {
    word: Word,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out access to one thread at a time, so sending T suffices.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: the lock owns its value.
unsafe impl<T: Send> Send for Lock<T> {}

/// Access to the value while the lock is held; gives the lock back when dropped.
#[derive(Debug)]
#[must_use = "the lock is given back at once"]
pub struct Held<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Lock<T> {
        Lock { word: Word::new(), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock: spins briefly, then sleeps.
    #[inline]
    pub fn lock(&self) -> Held<'_, T> {
        self.acquire();
        Held { lock: self }
    }

    /// The lock if it is free now; never waits and makes no system call.
    #[inline]
    pub fn try_lock(&self) -> Option<Held<'_, T>> {
        self.word.try_acquire().then(|| Held { lock: self })
    }

    /// Takes the lock without a guard, for a `fork` handler; ends with [`Lock::release`].
    #[inline]
    pub fn acquire(&self) {
        self.word.acquire(futex::wait);
    }

    /// Gives back a lock taken by [`Lock::acquire`].
    ///
    /// # Safety
    /// The calling thread (or, in a child of `fork`, the thread that forked) holds the lock and
    /// no guard for it is alive.
    #[inline]
    pub unsafe fn release(&self) {
        // SAFETY: the same contract.
        unsafe { self.word.release() };
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
        // SAFETY: a `Held` exists only while this thread holds the lock, and it is unique.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this guard was made by `lock` in this thread and dies here.
        unsafe { self.lock.release() };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn counts_are_exact_under_contention() {
        static LOCK: Lock<u64> = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        *LOCK.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*LOCK.lock(), 200_000);
    }

    #[test]
    fn held_lock_is_not_had_without_waiting() {
        let lock = Lock::new(7);
        let held = lock.try_lock().unwrap();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert_eq!(*lock.try_lock().unwrap(), 7);
    }
}
