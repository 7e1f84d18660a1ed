//! Steps under a lock, which builds with debug assertions count: a walk that grows with the heap
//! ends a test there. Other builds have no code of this.
//!
//! A loop that may be long calls [`step`] each time. The steps of one hold are counted; those under
//! a lock that is taken inside of it are steps of that one.

use core::panic::Location;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::tls;

/// The most steps at one hold of the loops that count: no number of theirs in the table of locks in
/// ARCHITECTURE.md is higher.
pub const STEPS_MAX: usize = 256;

/// The counts of threads: the thread pointer, and behind it the steps in [`COUNT_BITS`]. Threads
/// with the same place count less than they do: one that finds the pointer of another begins anew,
/// and never puts back what the other has counted.
static COUNTS: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];
const COUNT_BITS: u32 = 16;

/// What was counted of the hold around another one.
#[derive(Debug)]
pub(super) struct Outer(usize);

#[inline]
pub(super) fn begin() -> Outer {
    if !cfg!(debug_assertions) {
        return Outer(0);
    }
    // Relaxed: a thread goes on from what it has written itself, or begins anew.
    let count = here().swap(0, Ordering::Relaxed);
    Outer(if is_own(count) { count } else { 0 })
}

/// Goes on with the hold around this one.
#[inline]
pub(super) fn end(outer: &Outer) {
    if cfg!(debug_assertions) {
        // Relaxed: as in `begin`.
        here().store(outer.0, Ordering::Relaxed);
    }
}

/// Counts a step of the calling thread, if it holds a lock. Ends the process at one too many.
#[inline]
#[track_caller]
pub fn step() {
    if cfg!(debug_assertions) {
        count_step(Location::caller());
    }
}

/// Counts the steps of a hold anew: what the caller asked for is not done yet, and a part of it is,
/// so that the request bounds how often this happens.
#[inline]
pub fn restart_steps() {
    end(&Outer(0));
}

fn count_step(place: &Location<'_>) {
    if tls::locks() == 0 {
        return;
    }
    // Relaxed: as in `begin`.
    let (own, count) = (tls::thread_pointer() << COUNT_BITS, here().load(Ordering::Relaxed));
    let steps = if is_own(count) { count - own + 1 } else { 1 };
    if steps > STEPS_MAX {
        crate::report::die(format_args!("{place}: more than {STEPS_MAX} steps under a lock"));
    }
    // Relaxed: as in `begin`.
    here().store(own | steps, Ordering::Relaxed);
}

fn is_own(count: usize) -> bool {
    count >> COUNT_BITS << COUNT_BITS == tls::thread_pointer() << COUNT_BITS
}

fn here() -> &'static AtomicUsize {
    let mixed = (tls::thread_pointer() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &COUNTS[(mixed >> 56) as usize]
}

#[cfg(test)]
#[path = "../../tests/unit/steps.rs"]
mod tests;
