//! Fences that threads pass anyway, which make a grace period's membarrier unnecessary.
//!
//! A membarrier interrupts every CPU that runs the process. But a thread that takes a cookie, to
//! defer something or to wait, passes a full fence and notes that. And a thread whose state is
//! [`OUTSIDE_FENCED`] passes one when it next reads: it waits for a grace period, will not read for
//! a while, is new, or has ended. If this is true of every thread, no CPU has to be interrupted;
//! and if none of them is in a section, the grace period is over. [`crate::protocol::reader`] has
//! the proof.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sheaves_sys::clock;

use super::registry;
use crate::protocol::reader::{OUTSIDE, OUTSIDE_FENCED, Readers};

/// How long the leader waits for threads to pass a fence by themselves. A thread that does nothing
/// but defer seals a sheaf in less than a microsecond.
const PATIENCE_NS: u64 = 20_000;
/// Backoff cap: grace periods that skip this wait after it timed out: once, then twice as often.
const SKIPS_MAX: u32 = 64;

/// Grace periods that still skip it, and that the last timeout made skip it. The leader's.
static SKIPS: AtomicU32 = AtomicU32::new(0);
static BACKOFF: AtomicU32 = AtomicU32::new(0);
/// The last grace period used a membarrier. Written by the leader.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Puts the calling thread into an extended quiescent state until its next read section. Inside a
/// read section of the default domain this does nothing.
///
/// A grace period interrupts the CPUs that run the process (membarrier), unless each thread that
/// has read is in this state, has ended, or has passed a fence since: by a
/// [`Cookie`](crate::Cookie), a wait for a grace period, a sheaf full of deferred objects, or one
/// of its first 256 sections. So a call pays off in a thread that has read a lot and now sleeps for
/// long.
///
/// Costs a load and a store, and a fence in the next section. Never blocks. Not for signal
/// handlers: if one interrupts the begin of a section, that section would miss its fence.
///
/// ```
/// # mod sheaves { pub use sheaves_rcu as rcu; }
/// drop(sheaves::rcu::read());
/// sheaves::rcu::enter_idle();
/// std::thread::park_timeout(std::time::Duration::from_millis(1));
/// ```
#[inline]
pub fn enter_idle() {
    // Relaxed: the thread's own state.
    let outside = registry::own().filter(|own| own.reader.state.load(Ordering::Relaxed) == OUTSIDE);
    if let Some(own) = outside {
        // Release pairs with the Acquire of the scan and in `passed`: the sections before. [R4]
        own.reader.state.store(OUTSIDE_FENCED, Ordering::Release);
    }
}

/// What grace period `number` knows of all threads that read. For the leader.
pub(crate) fn scan_fences(number: u64) -> Readers {
    let mut readers = Readers::Gone;
    for record in (0..registry::count()).map(registry::record) {
        readers = readers.max(record.reader.passed(number));
        if readers == Readers::Unfenced {
            break;
        }
    }
    readers
}

/// True if the leader should come back later. No thread waits for the grace period.
pub(crate) fn has_patience(began_ns: u64) -> bool {
    // Relaxed, all: only the leader uses them.
    let skips = SKIPS.load(Ordering::Relaxed);
    if skips > 0 {
        SKIPS.store(skips - 1, Ordering::Relaxed);
        return false;
    }
    let is_early = clock::fine_ns().saturating_sub(began_ns) < PATIENCE_NS;
    if !is_early {
        let backoff = (2 * BACKOFF.load(Ordering::Relaxed)).clamp(1, SKIPS_MAX);
        BACKOFF.store(backoff, Ordering::Relaxed);
        SKIPS.store(backoff, Ordering::Relaxed);
    }
    is_early
}

/// Notes whether a grace period used a membarrier. For the leader.
pub(crate) fn note_interrupted(is_interrupted: bool) {
    // Relaxed, both: hints, which only the leader writes.
    INTERRUPTED.store(is_interrupted, Ordering::Relaxed);
    if !is_interrupted {
        BACKOFF.store(0, Ordering::Relaxed);
    }
}

pub(crate) fn has_interrupted() -> bool {
    // Relaxed: a hint.
    INTERRUPTED.load(Ordering::Relaxed)
}
