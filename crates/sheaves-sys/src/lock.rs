//! A sleeping lock for slow paths. A `fork` handler can take it, and the forking thread can
//! re-enter it.
//!
//! The word holds the owner's thread pointer, the generation of the process in which the owner took
//! the lock, and three bits. The thread that makes a transition writes it:
//!
//! | value | meaning | transitions |
//! |---|---|---|
//! | 0 | free | -> owner by a thread that takes it |
//! | owner | held | -> 0 by the owner |
//! | owner that is not in this process | was held | -> a new owner with `OWNER_DIED`, by that one |
//! | owner with `CONTENDED` | a thread may sleep | set by it; -> 0 by the owner |
//! | owner with `FORKING` | held by a fork's handlers | set and -> 0 by them |
//! | owner with `OWNER_DIED` | the guarded data may be half changed | -> 0 by the owner |
//!
//! A thread that releases a contended lock wakes one waiter.
//!
//! A child of a fork may inherit a lock that another thread of its parent held. The generation
//! tells such an owner from a thread of the child that has the same thread pointer: an owner of an
//! older generation is not in the child, unless it is the thread that forked ([`fork`]). A thread
//! that finds the owner missing takes the lock over and is told so, as with robust mutexes
//! (`EOWNERDEAD`): it must repair the guarded data. Fork handlers make sure that this never happens
//! to the locks that they take.
//!
//! A lock that a fork holds guards consistent data, since no thread is changing them. So the
//! forking thread may re-enter it: handlers of other libraries, which run between those of this
//! one, may allocate. A forking thread may also hold a lock by itself, because a signal handler
//! forks in the middle of a critical section. The fork's handlers skip that lock: parent and child
//! both return to the critical section, which ends by itself. Both rules need to know the owner at
//! every instruction, hence the owner is in the word.
//!
//! The futex lock with a state for sleepers is mutex 3 of Ulrich Drepper, "Futexes Are Tricky"
//! (2011). The futex is the half of the word with the bits, and a sleeper compares that half. The
//! halves of two owners may be equal; then a thread sleeps on a lock that is held and marked as
//! contended, which is correct.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::{fork, futex, tls};

const FREE: usize = 0;
/// A thread may sleep on the word.
const CONTENDED: usize = 1;
/// A fork's handlers hold the lock.
const FORKING: usize = 2;
/// The lock was taken over from a thread that is not in this process.
const OWNER_DIED: usize = 4;
/// Mask of the owner: its thread pointer, a multiple of at least 8.
const OWNER: usize = (1 << GENERATION_SHIFT) - 8;
/// Position of the generation (its lowest bits) of the process in which the owner took the lock.
const GENERATION_SHIFT: u32 = 48;
const GENERATIONS: usize = usize::MAX >> GENERATION_SHIFT;

/// The value that the calling thread writes into a word that it takes.
#[inline]
fn me() -> usize {
    tls::thread_pointer() | fork::generation() << GENERATION_SHIFT
}

/// True when a word is held by a thread that is not in this process.
fn is_orphaned(word: usize) -> bool {
    word != FREE && fork::is_gone(word & OWNER, word >> GENERATION_SHIFT, GENERATIONS)
}

/// Rounds of spinning before a contender sleeps; critical sections here are below 1 us.
const SPINS: u32 = 100;

/// The word of a lock. Used without a [`Lock`] for what is held longer than a [`Lock`] may be.
///
/// Memory: `release` synchronises with the next acquisition.
#[derive(Debug)]
pub struct Word(AtomicUsize);

impl Word {
    /// A free word.
    #[must_use]
    pub const fn new() -> Word {
        Word(AtomicUsize::new(FREE))
    }

    /// Takes the word if it is free now; never waits and makes no system call.
    #[inline]
    #[must_use]
    pub fn try_acquire(&self) -> bool {
        // Acquire pairs with the Release in `release`: the writes of the last owner are visible.
        // Relaxed on failure: nothing is read then.
        self.0.compare_exchange(FREE, me(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the word over if its owner is not in this process.
    #[cold]
    fn try_take_over(&self) -> bool {
        // Relaxed: compared by the exchange.
        let word = self.0.load(Ordering::Relaxed);
        let mine = me() | OWNER_DIED | word & CONTENDED;
        // Acquire pairs with the Release of a thread that took the word over first, and has
        // released it.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        is_orphaned(word) && self.0.compare_exchange(word, mine, success, failure).is_ok()
    }

    /// Takes the word. A contender calls `sleep` with the futex and its value, to wait until the
    /// futex may have another value.
    #[inline]
    pub fn acquire(&self, sleep: impl Fn(&AtomicU32, u32)) {
        fork::settle();
        if !self.try_acquire() {
            self.acquire_slow(sleep);
        }
    }

    #[cold]
    fn acquire_slow(&self, sleep: impl Fn(&AtomicU32, u32)) {
        if self.try_take_over() {
            return;
        }
        for _ in 0..SPINS {
            // Relaxed: only a hint for when to try again; the exchange orders.
            if self.0.load(Ordering::Relaxed) == FREE && self.try_acquire() {
                return;
            }
            core::hint::spin_loop();
        }
        let me = me();
        loop {
            // CONTENDED also when no other thread waits: that costs one needless wake-up, and no
            // sleeper is ever missed.
            let marked = |word| Some(CONTENDED | if word == FREE { me } else { word });
            // Acquire pairs with the Release in `release`. Relaxed on failure: the loop looks
            // again.
            let found = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, marked);
            match found.unwrap_or_else(|word| word) {
                FREE => return,
                word => sleep(self.futex(), (word | CONTENDED) as u32),
            }
        }
    }

    /// The half of the word that holds the bits.
    fn futex(&self) -> &AtomicU32 {
        let half = self.0.as_ptr().cast::<u32>();
        let half = half.wrapping_add(usize::from(cfg!(target_endian = "big")));
        // SAFETY: half of an atomic word, aligned, which lives as long as the lock; only the kernel
        // accesses it in this size.
        unsafe { AtomicU32::from_ptr(half) }
    }

    /// Releases the word, and wakes one sleeper.
    ///
    /// # Safety
    /// The calling thread (or, in a child of `fork`, the thread that forked) has taken it.
    #[inline]
    pub unsafe fn release(&self) {
        // Release pairs with the Acquire of the next holder.
        if self.0.swap(FREE, Ordering::Release) & CONTENDED != 0 {
            futex::wake(self.futex(), 1);
        }
    }

    /// Resets the word in the child of a fork; `is_held` if the thread that forked holds it. The
    /// child has no other thread.
    pub fn restart_in_child(&self, is_held: bool) {
        let word = if is_held { me() } else { FREE };
        // Relaxed: the child has one thread.
        self.0.store(word, Ordering::Relaxed);
    }

    /// True when the calling thread holds the word.
    fn is_mine(&self) -> bool {
        // Relaxed: only the thread itself writes its own number into the word, and removes it.
        let word = self.0.load(Ordering::Relaxed);
        word & OWNER == tls::thread_pointer() && !is_orphaned(word)
    }

    /// True when a fork of the calling thread holds the word: the thread is in a fork handler.
    fn is_forking(&self) -> bool {
        // Relaxed: as in `is_mine`.
        self.0.load(Ordering::Relaxed) & (OWNER | FORKING) == tls::thread_pointer() | FORKING
    }

    /// True when its owner has taken it over.
    fn has_owner_died(&self) -> bool {
        // Relaxed: for the owner, which has written it.
        self.0.load(Ordering::Relaxed) & OWNER_DIED != 0
    }
}

impl Default for Word {
    fn default() -> Word {
        Word::new()
    }
}

/// A value guarded by a futex lock of 8 bytes. `const`-constructible, never allocates.
///
/// Not recursive, except as [`Lock::acquire`] says. Not async-signal-safe. Memory: a release
/// synchronises with the next acquisition.
#[derive(Debug)]
pub struct Lock<T> {
    word: Word,
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
}

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Lock<T> {
        Lock { word: Word::new(), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock: spins briefly, then sleeps.
    #[inline]
    pub fn lock(&self) -> Held<'_, T> {
        fork::settle();
        if !self.word.try_acquire() && !self.enter_again() {
            self.word.acquire_slow(futex::wait);
        }
        self.held()
    }

    /// Takes the lock if it is free now; never waits and makes no system call.
    #[inline]
    pub fn try_lock(&self) -> Option<Held<'_, T>> {
        fork::settle();
        let is_ours = self.word.try_acquire() || self.enter_again() || self.word.try_take_over();
        is_ours.then(|| self.held())
    }

    /// True when a fork of the calling thread holds the lock.
    #[cold]
    fn enter_again(&self) -> bool {
        self.word.is_forking()
    }

    #[inline]
    fn held(&self) -> Held<'_, T> {
        count(1);
        Held { lock: self }
    }

    /// Takes the lock for a fork, in its prepare handler; ends with [`Lock::release`].
    ///
    /// From then on [`Lock::lock`] and [`Lock::try_lock`] of the same thread re-enter it at once.
    /// The thread may hold the lock already, because a signal handler forks in the middle of its
    /// critical section. Then this does nothing, and neither does [`Lock::release`].
    pub fn acquire(&self) {
        if !self.word.is_mine() {
            self.word.acquire(futex::wait);
            // Relaxed: read by this thread alone.
            self.word.0.fetch_or(FORKING, Ordering::Relaxed);
        }
    }

    /// [`Lock::acquire`] in a child whose fork was not prepared. Calls `recover` if a thread that
    /// is not in the child held the lock, and may have left the value half changed. Returns the
    /// value, which is consistent then; `None` where this thread itself is changing it.
    pub fn acquire_to_recover(&self, recover: impl FnOnce(&mut T)) -> Option<Held<'_, T>> {
        self.acquire();
        let mut held = self.is_held_for_fork().then(|| self.lock())?;
        if held.has_owner_died() {
            recover(&mut held);
        }
        Some(held)
    }

    /// True when a fork of this thread holds the lock. Only then are the data consistent, and a
    /// handler may read them.
    #[must_use]
    pub fn is_held_for_fork(&self) -> bool {
        self.word.is_forking()
    }

    /// True when the calling thread holds the lock, by itself or for a fork.
    #[must_use]
    pub fn is_held_here(&self) -> bool {
        self.word.is_mine()
    }

    /// Releases, in the parent or in the child, a lock that [`Lock::acquire`] has taken for the
    /// fork.
    ///
    /// # Safety
    /// No guard that this thread took since then is alive.
    pub unsafe fn release(&self) {
        if self.word.is_forking() {
            // SAFETY: taken by this thread, and no guard is alive.
            unsafe { self.word.release() };
        }
    }
}

impl<T> Held<'_, T> {
    /// True when the lock was taken over from a thread that is not in this process. Then the value
    /// may be half changed: of each change the stores up to some point are present. For locks that
    /// no fork handler takes.
    #[must_use]
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
        count(-1);
        // A lock that a fork holds is released by the fork's handlers.
        if !self.lock.word.is_forking() {
            // SAFETY: this guard was made by `lock` in this thread and dies here.
            unsafe { self.lock.word.release() };
        }
    }
}

/// Aborts the process if the calling thread holds a lock, in builds with debug assertions. For code
/// that must hold none: before it calls code of the program, starts a thread, or makes a long
/// system call.
///
/// A fork during one of these would wait for the lock, or the called code would take locks in
/// another order.
#[inline]
#[track_caller]
pub fn assert_none_held() {
    if cfg!(debug_assertions) && count(0) != 0 {
        let place = core::panic::Location::caller();
        crate::report::die(format_args!("{place}: a lock is held, and none may be"));
    }
}

/// Adds to the number of guards of the thread, for [`assert_none_held`]; returns the new number.
#[inline]
fn count(change: i32) -> i32 {
    if cfg!(debug_assertions) { tls::count_locks(change) } else { 0 }
}

#[cfg(test)]
#[path = "../tests/unit/lock.rs"]
mod tests;
