//! A sleeping lock for slow paths that a `fork` handler can take and its thread enter again.
//!
//! The word holds the thread that has the lock, the generation of the process in which it took it,
//! and three bits. Whoever makes a transition writes it:
//!
//! | value | meaning | transitions |
//! |---|---|---|
//! | 0 | free | -> owner by whoever takes it |
//! | owner | held | -> 0 by the owner |
//! | owner that is not in this process | was held | -> a new owner with `OWNER_DIED`, by that one |
//! | owner with `CONTENDED` | a thread may sleep | set by it; -> 0 by the owner |
//! | owner with `FORKING` | held by a fork's handlers | set and -> 0 by them |
//! | owner with `OWNER_DIED` | what is guarded may be half changed | -> 0 by the owner |
//!
//! Whoever gives back a contended lock wakes one thread.
//!
//! A child of a fork may inherit a lock that another thread of its parent held. The generation
//! tells such an owner from a thread of the child that has the same thread pointer: that of an
//! older generation is not there, unless it is the thread that forked ([`fork`]). Whoever comes for
//! the lock takes it over and is told so, as with robust mutexes (`EOWNERDEAD`): it puts in order
//! what is guarded. The handlers of forks see to it that this is never needed for what they know.
//!
//! A lock that a fork holds guards consistent data, since no one is in the middle of changing them.
//! So the forking thread may enter it again: handlers of other libraries, which run between those
//! of this one, may allocate. And a lock that the forking thread holds by itself, because a signal
//! handler forks in the middle of a critical section, is left alone by the fork's handlers: parent
//! and child come back to that section, which ends by itself. Both need to know who has the lock at
//! every instruction, hence the owner is in the word.
//!
//! The futex lock with a state for sleepers is that of Ulrich Drepper, "Futexes Are Tricky" (2011),
//! mutex 3. The futex is the half of the word with the bits; a sleeper compares that half. Two
//! owners may agree in it, but then a thread sleeps on a lock that is held and marked as contended,
//! as it should.

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
/// The owner: its thread pointer, a multiple of 8 or more,
const OWNER: usize = (1 << GENERATION_SHIFT) - 8;
/// and the lowest bits of the generation of the process in which it took the lock.
const GENERATION_SHIFT: u32 = 48;
const GENERATIONS: usize = usize::MAX >> GENERATION_SHIFT;

/// What the calling thread writes into a word that it takes.
#[inline]
fn me() -> usize {
    tls::thread_pointer() | fork::generation() << GENERATION_SHIFT
}

/// Is a word held by a thread that is not in this process?
fn is_orphaned(word: usize) -> bool {
    word != FREE && fork::is_gone(word & OWNER, word >> GENERATION_SHIFT, GENERATIONS)
}

/// Rounds of spinning before a contender sleeps; critical sections here are below 1 us.
const SPINS: u32 = 100;

/// The word of a lock. By itself for what is held for so long that no [`Lock`] may be.
///
/// Memory: `release` releases to the next who takes it.
#[derive(Debug)]
pub struct Word(AtomicUsize);

impl Word {
    /// A free one.
    #[must_use]
    pub const fn new() -> Word {
        Word(AtomicUsize::new(FREE))
    }

    /// Takes the word if it is free now; never waits and makes no system call.
    #[inline]
    #[must_use]
    pub fn try_acquire(&self) -> bool {
        // Acquire pairs with the Release in `release`: we see what the last holder wrote. Relaxed
        // on failure: nothing is read then.
        self.0.compare_exchange(FREE, me(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the word over if its owner is not in this process.
    #[cold]
    fn try_take_over(&self) -> bool {
        // Relaxed: compared by the exchange.
        let word = self.0.load(Ordering::Relaxed);
        let mine = me() | OWNER_DIED | word & CONTENDED;
        // Acquire pairs with the Release of whoever was first, and has given it back.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        is_orphaned(word) && self.0.compare_exchange(word, mine, success, failure).is_ok()
    }

    /// Takes the word; `sleep` is what a contender does until the futex may have changed from the
    /// value that it is given.
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
            // CONTENDED also when no other thread waits: the price is one needless wake-up, the
            // gain that no sleeper is forgotten.
            let marked = |word| Some(CONTENDED | if word == FREE { me } else { word });
            // Acquire pairs with the Release in `release`. Relaxed on failure: we look again.
            let found = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, marked);
            match found.unwrap_or_else(|word| word) {
                FREE => return,
                word => sleep(self.futex(), (word | CONTENDED) as u32),
            }
        }
    }

    /// The half of the word that holds the two bits.
    fn futex(&self) -> &AtomicU32 {
        let half = self.0.as_ptr().cast::<u32>();
        let half = half.wrapping_add(usize::from(cfg!(target_endian = "big")));
        // SAFETY: half of an atomic word, aligned, which lives as long as the lock; nobody but the
        // kernel accesses it in this size.
        unsafe { AtomicU32::from_ptr(half) }
    }

    /// Gives the word back, and wakes one that sleeps.
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

    /// In the child of a fork: is the word held by the thread that forked? Nobody else is there.
    pub fn restart_in_child(&self, is_held: bool) {
        let word = if is_held { me() } else { FREE };
        // Relaxed: the child has one thread.
        self.0.store(word, Ordering::Relaxed);
    }

    /// Has the calling thread taken it?
    fn is_mine(&self) -> bool {
        // Relaxed: a thread's own number comes into the word, and leaves it, by that thread alone.
        let word = self.0.load(Ordering::Relaxed);
        word & OWNER == tls::thread_pointer() && !is_orphaned(word)
    }

    /// Has a fork of the calling thread taken it? Then the thread is in one of its handlers.
    fn is_forking(&self) -> bool {
        // Relaxed: as in `is_mine`.
        self.0.load(Ordering::Relaxed) & (OWNER | FORKING) == tls::thread_pointer() | FORKING
    }

    /// Was it taken over by its owner?
    fn has_owner_died(&self) -> bool {
        // Relaxed: for the owner, who has written it.
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
/// Not recursive, but see [`Lock::acquire`]. Not async-signal-safe. Memory: giving it back releases
/// to the next who takes it.
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
        fork::settle();
        if !self.word.try_acquire() && !self.enter_again() {
            self.word.acquire_slow(futex::wait);
        }
        self.held()
    }

    /// The lock if it is free now; never waits and makes no system call.
    #[inline]
    pub fn try_lock(&self) -> Option<Held<'_, T>> {
        fork::settle();
        let is_ours = self.word.try_acquire() || self.enter_again() || self.word.try_take_over();
        is_ours.then(|| self.held())
    }

    /// Does a fork of the calling thread hold the lock?
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
    /// From then on [`Lock::lock`] and [`Lock::try_lock`] of the same thread enter it at once. If
    /// the thread holds the lock already, because the fork comes from a signal handler in the
    /// middle of its critical section, this does nothing, and neither does [`Lock::release`].
    pub fn acquire(&self) {
        if !self.word.is_mine() {
            self.word.acquire(futex::wait);
            // Relaxed: read by this thread alone.
            self.word.0.fetch_or(FORKING, Ordering::Relaxed);
        }
    }

    /// [`Lock::acquire`] in a child whose fork has not prepared; `recover` is called where a thread
    /// that is not there held the lock, and may have left the value half changed.
    pub fn acquire_to_recover(&self, recover: impl FnOnce(&mut T)) {
        self.acquire();
        if self.is_held_for_fork() && self.word.has_owner_died() {
            recover(&mut self.lock());
        }
    }

    /// Does the fork that this thread makes hold the lock? Only then are the data consistent, and
    /// a handler may look at them.
    #[must_use]
    pub fn is_held_for_fork(&self) -> bool {
        self.word.is_forking()
    }

    /// Does the calling thread hold the lock, by itself or for a fork?
    #[must_use]
    pub fn is_held_here(&self) -> bool {
        self.word.is_mine()
    }

    /// Gives back, in the parent or in the child, what [`Lock::acquire`] has taken for the fork.
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
    /// Was the lock taken over from a thread that is not in this process? Then the value may be
    /// half changed: each of its stores up to some point is there. For locks that no fork handler
    /// takes.
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
        // What a fork holds it gives back itself.
        if !self.lock.word.is_forking() {
            // SAFETY: this guard was made by `lock` in this thread and dies here.
            unsafe { self.lock.word.release() };
        }
    }
}

/// Ends the process where the calling thread holds a lock, in builds with debug assertions: before
/// code of the program is called, a thread is started, or the kernel works for long.
///
/// A fork in one of these would wait for the lock, or the code take locks in another order.
#[inline]
#[track_caller]
pub fn assert_none_held() {
    if cfg!(debug_assertions) && count(0) != 0 {
        let place = core::panic::Location::caller();
        crate::report::die(format_args!("{place}: a lock is held, and none may be"));
    }
}

/// Adds to the guards that the thread has, for [`assert_none_held`]; how many there are.
#[inline]
fn count(change: i32) -> i32 {
    if cfg!(debug_assertions) { tls::count_locks(change) } else { 0 }
}

#[cfg(test)]
mod tests;
