//! Fences that threads pass anyway, which make a grace period's membarrier unnecessary.
//!
//! A membarrier interrupts every CPU that runs the process. Beside one busy thread it costs its
//! caller ten microseconds, and it pauses that thread. But a thread that defers something, or asks
//! for a grace period, passes a full fence anyway to get its number. If every thread that reads has
//! done so since a grace period began, no CPU has to be interrupted.
//!
//! A thread notes in its record which grace periods had begun *before* it passed a fence. Let the
//! note say n, P be that fence, and U the fence of an updater that belongs to n or an earlier one
//! ([`crate::generation::Generations::next`]). The updater read, after U, a number from before n
//! began; the thread read, before P, that n had begun. So U is before P in the order of all fences,
//! and what the thread reads after P is what the updater stored. The note is stored after P and
//! read with Acquire, so what the thread did before P happened before the leader's next step.
//! `grace` needs exactly this from the membarrier. Modelled in `models`.
//!
//! A thread whose word is [`FENCED`] passes a fence when it begins its next section, after it has
//! stored its new word. If the leader's fence is before that fence, the section reads what updaters
//! stored; otherwise the leader reads the new word. A signal handler that reads between that store
//! and that fence passes a fence of its own, see `reader`. So a thread that waits for a grace
//! period, or will not read for a while, stores [`FENCED`] once. Its next section takes the slow
//! path, and the unlock of that section stores an ordinary word.
//!
//! The first [`crate::word::SECTIONS_COLD`] sections of a thread all begin with such a fence. A
//! thread that reads seldom, or has stopped reading, causes no membarrier; one that reads a lot has
//! spent on these fences what one membarrier costs.
//!
//! A thread that ends leaves [`FENCED`] in its record, and a new thread starts with it.
//!
//! If in addition none of these threads is in a section, by its word as read after its note, no
//! reader can have an old object: a section that begins later passes its fence first. Then the
//! sequence need not advance.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sheaves_sys::clock;

use crate::registry::{self, Record};
use crate::word::{self, FENCED, IDLE};

/// How long the leader waits for threads to pass a fence by themselves before it uses a membarrier.
/// A thread that does nothing but defer seals a sheaf in less than a microsecond.
const PATIENCE_NS: u64 = 20_000;
/// Backoff cap: grace periods that skip this wait after it timed out. The first timeout skips it
/// once, each further one twice as often.
const WITHOUT_MAX: u32 = 64;

/// Grace periods that still skip the wait, and how many the last timeout made skip it. Only the
/// leader uses these.
static WITHOUT: AtomicU32 = AtomicU32::new(0);
static IN_VAIN: AtomicU32 = AtomicU32::new(0);
/// The last grace period used a membarrier. Written by the leader.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Notes that a thread has passed a full fence after it read that `begun` had begun. For that
/// thread. Async-signal-safe: an older note may overwrite a handler's.
#[inline]
pub(crate) fn note(own: &Record, begun: u64) {
    // Relaxed: the fence before it pairs with the Acquire in `look`, for what the thread did
    // before. [R6]
    own.fenced.store(begun, Ordering::Relaxed);
}

/// Makes the calling thread's next section pass a fence, unless a section is open.
///
/// Not in a signal handler: the thread may be about to begin a section, and have read its word
/// already. It would then begin without a fence while the leader relies on one.
#[inline]
pub(crate) fn enter_idle() {
    // Relaxed: the thread's own word.
    let idle = registry::own().filter(|own| own.word.load(Ordering::Relaxed) == IDLE);
    if let Some(own) = idle {
        // Release pairs with the Acquire of the scan and in `look`: the sections before this
        // are over. [R4]
        own.word.store(FENCED, Ordering::Release);
    }
}

/// What the notes and words of all records say about a grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// All threads have passed a fence since it began, or will before they read, and none is in a
    /// section from before that: the grace period is over.
    Gone,
    /// All threads have passed a fence since it began, or will before they read.
    Fenced,
    /// Not all threads have.
    Unfenced,
}

/// Reads the notes and words of all threads that read. For the leader, after the fence of
/// [`crate::generation::Generations::begin`].
pub(crate) fn look(number: u64) -> Readers {
    let mut readers = Readers::Gone;
    for record in (0..registry::count()).map(registry::record) {
        // Acquire pairs with the fence before `note`: the word read below is the one at that fence,
        // or a later one. [R6]
        let has_fenced = record.fenced.load(Ordering::Acquire) >= number;
        // Acquire pairs with the Release of the unlock, in `enter_idle` and in `registry::clear`:
        // the sections before. [R4]
        let word = record.word.load(Ordering::Acquire);
        if has_fenced && word::is_reading(word) {
            readers = Readers::Fenced;
        }
        if !has_fenced && word != FENCED {
            return Readers::Unfenced;
        }
    }
    readers
}

/// True if the leader should come back later, for a grace period that began at `began_ns` and that
/// no thread waits for. For the leader.
pub(crate) fn has_patience(began_ns: u64) -> bool {
    // Relaxed, all: only the leader uses them.
    let without = WITHOUT.load(Ordering::Relaxed);
    if without > 0 {
        WITHOUT.store(without - 1, Ordering::Relaxed);
        return false;
    }
    let is_early = clock::fine_ns().saturating_sub(began_ns) < PATIENCE_NS;
    if !is_early {
        let in_vain = (2 * IN_VAIN.load(Ordering::Relaxed)).clamp(1, WITHOUT_MAX);
        IN_VAIN.store(in_vain, Ordering::Relaxed);
        WITHOUT.store(in_vain, Ordering::Relaxed);
    }
    is_early
}

/// Notes whether a grace period used a membarrier. For the leader.
pub(crate) fn note_interrupted(is_interrupted: bool) {
    // Relaxed, both: hints, which only the leader writes.
    INTERRUPTED.store(is_interrupted, Ordering::Relaxed);
    if !is_interrupted {
        IN_VAIN.store(0, Ordering::Relaxed);
    }
}

/// True if the last grace period used a membarrier. A hint.
pub(crate) fn has_interrupted() -> bool {
    // Relaxed: a hint.
    INTERRUPTED.load(Ordering::Relaxed)
}
