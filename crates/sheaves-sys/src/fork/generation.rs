//! The generation of this process, by which a lock knows whether its owner is in the process, and
//! its age.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::{clock, tls};

/// Number of forks between the first process that has loaded this object and this one. Written,
/// like the next two, in the child of a fork.
#[unsafe(link_section = ".sheaves_load")]
static GENERATION: AtomicUsize = AtomicUsize::new(0);
/// The thread that has forked this process, by its thread pointer; 0 in the first process.
#[unsafe(link_section = ".sheaves_load")]
static FORKER: AtomicUsize = AtomicUsize::new(0);
/// The generation in which that thread forked first.
#[unsafe(link_section = ".sheaves_load")]
static FORKER_SINCE: AtomicUsize = AtomicUsize::new(0);

/// How many locks of [`crate::lock::bits`] that thread may hold since before the fork. Written in
/// the child of a fork, and by that thread.
static FORKER_HOLDS: AtomicUsize = AtomicUsize::new(0);

/// When this process has forked from its parent, or has first used this object, in ms of the clock;
/// 0 before. Not when the object is loaded: at the start of a program the clock is two page faults.
static BEGAN_MS: AtomicU64 = AtomicU64::new(0);

/// Notes that this process uses the library, from now on if it has not before.
pub fn note_use() {
    // Relaxed, all: a number.
    if BEGAN_MS.load(Ordering::Relaxed) == 0 {
        BEGAN_MS.store(clock::coarse_ms(), Ordering::Relaxed);
    }
}

/// Milliseconds since this process has forked from its parent, or since it has first used this
/// object; 0 if it has not.
pub fn age_ms() -> u64 {
    // Relaxed: as above.
    match BEGAN_MS.load(Ordering::Relaxed) {
        0 => 0,
        began_ms => clock::coarse_ms().saturating_sub(began_ms),
    }
}

/// Begins the next generation, in the child of a fork.
pub(crate) fn begin() {
    // Relaxed, all: the child has one thread.
    let (generation, thread) = (generation(), tls::thread_pointer());
    if FORKER.swap(thread, Ordering::Relaxed) != thread {
        FORKER_SINCE.store(generation, Ordering::Relaxed);
    }
    crate::restart_word!(FORKER_HOLDS, tls::bit_locks().into());
    GENERATION.store(generation + 1, Ordering::Relaxed);
    BEGAN_MS.store(clock::coarse_ms(), Ordering::Relaxed);
}

/// Number of forks between the first process that has loaded this object and this one.
#[inline]
pub fn generation() -> usize {
    // Relaxed: changes where there is one thread.
    GENERATION.load(Ordering::Relaxed)
}

/// True when a thread that ran in a generation is not in this process. `generation` has the bits of
/// `mask` only, and is unambiguous for as many nested forks.
pub fn is_gone(thread: usize, generation: usize, mask: usize) -> bool {
    // Relaxed, all: change while there is one thread.
    let age = |number: usize| self::generation().wrapping_sub(number) & mask;
    let is_forker = thread == FORKER.load(Ordering::Relaxed)
        && age(generation) <= age(FORKER_SINCE.load(Ordering::Relaxed));
    age(generation) != 0 && !is_forker
}

/// True while the thread that has forked this process may hold locks of [`crate::lock::bits`] from
/// before the fork.
pub(crate) fn forker_holds() -> bool {
    // Acquire pairs with the Release in `note_held_slow`: the lock's word has been released.
    FORKER_HOLDS.load(Ordering::Acquire) != 0
}

/// The calling thread has released such a lock, and holds this many.
#[inline]
pub(crate) fn note_held(count: u8) {
    if forker_holds() {
        note_held_slow(count.into());
    }
}

#[cold]
fn note_held_slow(count: usize) {
    // Relaxed: written where there is one thread.
    if FORKER.load(Ordering::Relaxed) == tls::thread_pointer() {
        // Release pairs with the Acquire in `forker_holds`.
        FORKER_HOLDS.fetch_min(count, Ordering::Release);
    }
}
