//! The word of a sleeping lock that a `fork` handler can take, and that knows its owner.
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
//! A child of a fork may inherit a lock that another thread of its parent held, whose thread
//! pointer a thread of the child may get: the [`generation`] tells the two apart. A thread that
//! finds the owner missing takes the lock over and must repair the guarded data, as with robust
//! mutexes (`EOWNERDEAD`). That never happens to the locks that fork handlers take.
//!
//! While the process has one thread no instruction is a locked one, as in glibc's own locks.
//!
//! The lock is mutex 3 of Ulrich Drepper, "Futexes Are Tricky" (2011). The futex is the half of the
//! word with the bits. The halves of two owners may be equal: then a thread sleeps on a lock that
//! is held and marked as contended, which is correct.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering, compiler_fence};

use crate::fork::generation;
use crate::{futex, tls};

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
fn owner_here() -> usize {
    tls::thread_pointer() | generation::generation() << GENERATION_SHIFT
}

/// True when a word is held by a thread that is not in this process.
fn is_orphaned(word: usize) -> bool {
    word != FREE && generation::is_gone(word & OWNER, word >> GENERATION_SHIFT, GENERATIONS)
}

/// Rounds of spinning before a contender sleeps; critical sections here are below 1 us.
const SPINS: u32 = 100;

/// The word of a lock. Used without a [`Lock`](crate::lock::Lock) where it is held longer than a
/// lock may be.
///
/// Memory: `release` synchronises with the next acquisition.
#[derive(Debug, Default)]
pub struct Word(AtomicUsize);

impl Word {
    /// A free word.
    pub const fn new() -> Word {
        Word(AtomicUsize::new(FREE))
    }

    /// Takes the word if it is free now; never waits and makes no system call.
    #[inline]
    #[must_use]
    pub fn try_acquire(&self) -> bool {
        if tls::is_single_threaded() {
            return self.try_acquire_alone();
        }
        // Acquire pairs with the Release in `release`: the writes of the last owner are visible.
        // Relaxed on failure: nothing is read then.
        self.0.compare_exchange(FREE, owner_here(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Without a locked instruction. A handler that interrupts this may fork, which takes the word
    /// and releases it.
    #[inline]
    fn try_acquire_alone(&self) -> bool {
        // Relaxed, both: there is no other thread.
        let is_free = self.0.load(Ordering::Relaxed) == FREE;
        if is_free {
            self.0.store(owner_here(), Ordering::Relaxed);
        }
        // SeqCst, for the compiler alone: a handler that forks finds the word first.
        compiler_fence(Ordering::SeqCst);
        is_free
    }

    /// Takes the word over if its owner is not in this process.
    #[cold]
    pub(crate) fn try_take_over(&self) -> bool {
        // Relaxed: compared by the exchange.
        let word = self.0.load(Ordering::Relaxed);
        let mine = owner_here() | OWNER_DIED | word & CONTENDED;
        // Acquire pairs with the Release of a thread that took the word over first, and has
        // released it.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        is_orphaned(word) && self.0.compare_exchange(word, mine, success, failure).is_ok()
    }

    /// Takes the word, after [`crate::fork::run_pending_handlers`]. A contender calls `sleep` with
    /// the futex and its value, to wait until the futex may have another value.
    #[inline]
    pub fn acquire(&self, sleep: impl Fn(&AtomicU32, u32)) {
        if !self.try_acquire() {
            self.acquire_slow(sleep);
        }
    }

    #[cold]
    pub(crate) fn acquire_slow(&self, sleep: impl Fn(&AtomicU32, u32)) {
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
        let owner = owner_here();
        loop {
            // CONTENDED also when no other thread waits: that costs one needless wake-up at most.
            let marked = |word| Some(CONTENDED | if word == FREE { owner } else { word });
            // Acquire pairs with the Release in `release`. Relaxed on failure: it tries again.
            let found = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, marked);
            match found.unwrap_or_else(|word| word) {
                FREE => return,
                // A futex of half a word is a race for it.
                _ if cfg!(miri) => core::hint::spin_loop(),
                word => sleep(self.futex(), (word | CONTENDED) as u32),
            }
        }
    }

    /// Takes the word for a fork, unless the thread has it already.
    pub(crate) fn acquire_for_fork(&self) {
        if !self.is_owned_here() {
            self.acquire(futex::wait);
            self.note_fork();
        }
    }

    /// [`Word::acquire_for_fork`] without waiting.
    pub(crate) fn try_acquire_for_fork(&self) -> bool {
        let is_owned = self.is_owned_here();
        if !is_owned && (self.try_acquire() || self.try_take_over()) {
            self.note_fork();
            return true;
        }
        is_owned
    }

    /// From now on a fork holds the word, which the calling thread has taken.
    pub(crate) fn note_fork(&self) {
        // Relaxed: read by this thread alone.
        self.0.fetch_or(FORKING, Ordering::Relaxed);
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
        let word = if tls::is_single_threaded() {
            // Relaxed: there is no other thread, and a holder starts none.
            let word = self.0.load(Ordering::Relaxed);
            // Release orders what it guards for a handler, and for threads that start later.
            self.0.store(FREE, Ordering::Release);
            word
        } else {
            // Release pairs with the Acquire of the next holder.
            self.0.swap(FREE, Ordering::Release)
        };
        if word & CONTENDED != 0 {
            futex::wake(self.futex(), 1);
        }
    }

    /// Releases the word if a fork of the calling thread holds it.
    ///
    /// # Safety
    /// No guard that this thread took since then is alive.
    pub(crate) unsafe fn release_after_fork(&self) {
        if self.is_forking() {
            // SAFETY: taken by this thread, and no guard is alive.
            unsafe { self.release() };
        }
    }

    /// Resets the word in the child of a fork: to held by the thread that forked, or to free.
    pub fn restart_in_child(&self, is_held: bool) {
        crate::restart_word!(self.0, if is_held { owner_here() } else { FREE });
    }

    /// True when the calling thread holds the word.
    pub fn is_owned_here(&self) -> bool {
        // Relaxed: only the thread itself writes its own number into the word, and removes it.
        let word = self.0.load(Ordering::Relaxed);
        word & OWNER == tls::thread_pointer() && !is_orphaned(word)
    }

    /// True when a fork of the calling thread holds the word: the thread is in a fork handler.
    pub(crate) fn is_forking(&self) -> bool {
        // Relaxed: as in `is_owned_here`.
        self.0.load(Ordering::Relaxed) & (OWNER | FORKING) == tls::thread_pointer() | FORKING
    }

    /// True when its owner has taken it over.
    pub(crate) fn has_owner_died(&self) -> bool {
        // Relaxed: for the owner, which has written it.
        self.0.load(Ordering::Relaxed) & OWNER_DIED != 0
    }
}

#[cfg(test)]
#[path = "../../tests/unit/lock.rs"]
mod tests;
