//! Fences that threads pass anyway, which make a grace period's membarrier unnecessary.
//!
//! A membarrier interrupts every CPU that runs the process. Beside one busy thread it costs its
//! caller ten microseconds, and it pauses that thread. But a thread that defers something, or asks
//! for a grace period, passes a full fence anyway to get its number, and notes it in its record. If
//! every thread that reads has done so since a grace period began, no CPU has to be interrupted.
//! [`crate::protocol::reader`] has the proof.
//!
//! A thread that waits for a grace period, or will not read for a while, stores [`FENCED`] once.
//! Its next section takes the slow path, and the unlock of that section stores an ordinary state. A
//! thread that ends leaves [`FENCED`] in its record, and a new thread starts with it. The first
//! [`crate::protocol::reader::SECTIONS_COLD`] sections of a thread all begin with such a fence. So
//! a thread that reads seldom, or has stopped reading, causes no membarrier; one that reads a lot
//! has spent on these fences what one membarrier costs.
//!
//! If in addition none of these threads is in a section, by its state as read after its note, no
//! reader can have an old object: a section that begins later passes its fence first. Then the
//! sequence need not advance.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sheaves_sys::clock;

use super::registry;
use crate::protocol::reader::{FENCED, IDLE, Readers};

/// How long the leader waits for threads to pass a fence by themselves before it uses a membarrier.
/// A thread that does nothing but defer seals a sheaf in less than a microsecond.
const PATIENCE_NS: u64 = 20_000;
/// Backoff cap: grace periods that skip this wait after it timed out. The first timeout skips it
/// once, each further one twice as often.
const SKIPS_MAX: u32 = 64;

/// Grace periods that still skip the wait, and how many the last timeout made skip it. Only the
/// leader uses these.
static SKIPS: AtomicU32 = AtomicU32::new(0);
static BACKOFF: AtomicU32 = AtomicU32::new(0);
/// The last grace period used a membarrier. Written by the leader.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Puts the calling thread into an extended quiescent state until its next read section. Inside a
/// read section of the default domain this does nothing.
///
/// A grace period uses a membarrier, which interrupts the CPUs that run the process, unless every
/// thread that has ever read has ended, is in this state, or has passed a fence since the grace
/// period began: by deferring something, or by asking for a grace period. So a call pays off in a
/// program that defers much, before a thread that has read a lot sleeps for long. Some threads are
/// in such a state anyway: a thread that waits for a grace period, has just filled a sheaf with
/// deferred objects, or has entered at most 256 sections so far. Costs a load and a store, and a
/// fence in the next section. Never blocks. Not for signal handlers: a handler that interrupts the
/// begin of a section would leave that section without its fence.
///
/// ```
/// drop(sheaves_rcu::read());
/// sheaves_rcu::enter_idle();
/// std::thread::park_timeout(std::time::Duration::from_millis(1));
/// // The thread may read again at any time.
/// drop(sheaves_rcu::read());
/// ```
#[inline]
pub fn enter_idle() {
    // In a signal handler the thread may be about to begin a section, and have read its state
    // already. It would then begin without a fence while the leader relies on one.
    // Relaxed: the thread's own state.
    let idle = registry::own().filter(|own| own.reader.state.load(Ordering::Relaxed) == IDLE);
    if let Some(own) = idle {
        // Release pairs with the Acquire of the scan and in `look`: the sections before this
        // are over. [R4]
        own.reader.state.store(FENCED, Ordering::Release);
    }
}

/// What grace period `number` knows of all threads that read. For the leader.
pub(crate) fn look(number: u64) -> Readers {
    let mut readers = Readers::Gone;
    for record in (0..registry::count()).map(registry::record) {
        readers = readers.max(record.reader.look(number));
        if readers == Readers::Unfenced {
            break;
        }
    }
    readers
}

/// True if the leader should come back later, for a grace period that began at `began_ns` and that
/// no thread waits for. For the leader.
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

/// True if the last grace period used a membarrier. A hint.
pub(crate) fn has_interrupted() -> bool {
    // Relaxed: a hint.
    INTERRUPTED.load(Ordering::Relaxed)
}
