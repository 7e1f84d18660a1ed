//! The first published form of a direct wake-up, which releases waiters **too early**.
//!
//! **Source.** Linux, "Reduce synchronize_rcu() waiting time", first version (2023): waiters are
//! on a list of their own, all of which is released at the end of a grace period. Published: 10
//! threads of 1000 calls each took 8.84 s instead of 19.76 s.
//!
//! **Reproduced.** The list, and the error: a waiter that joins in the middle of a grace period is
//! released at its end, although readers that began before it joined may still read. `sheaves
//! torture rcu` finds that.

use core::sync::atomic::{AtomicU32, Ordering};

use sheaves_rcu::InsideReader;
use sheaves_sys::futex;

use crate::callback::{List, Waiter, run};

/// The waiters, and whether one of them leads: 0 or 1.
static WAITERS: List = List::new();
static LEAD: AtomicU32 = AtomicU32::new(0);
/// After this time a waiter checks whether the lead is free.
const LOOK_NS: u64 = 100_000;

/// Waits for readers as the published form does, which may return **too early**.
///
/// # Errors
/// As [`sheaves_rcu::synchronize`].
pub fn synchronize() -> Result<(), InsideReader> {
    if sheaves_rcu::is_reading() {
        return sheaves_rcu::synchronize();
    }
    let mut waiter = Waiter::new();
    WAITERS.push((&raw mut waiter).cast());
    sheaves_rcu::enter_idle();
    while !waiter.is_done() {
        // Acquire: partner is the Release below. Relaxed on failure: nothing is read.
        let won = LEAD.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !won {
            futex::wait_for(&waiter.done, 0, LOOK_NS);
            continue;
        }
        if !waiter.is_done() {
            sheaves_rcu::synchronize().expect("checked above");
            // SAFETY: heads of waiters, each of which still waits.
            unsafe { run(WAITERS.take()) };
        }
        // Release: partner is the Acquire above.
        LEAD.store(0, Ordering::Release);
    }
    Ok(())
}
