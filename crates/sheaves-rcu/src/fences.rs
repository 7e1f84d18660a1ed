//! Fences that threads pass anyway, which spare a grace period its membarrier.
//!
//! A membarrier interrupts every processor that runs the process: ten microseconds for whoever asks
//! for it beside one busy thread, and a pause for that one. But whoever defers something, or asks
//! for a grace period, passes a full fence to get its number. Where every thread that reads has
//! done so since a grace period began, nobody has to be interrupted.
//!
//! A thread notes in its record which grace periods had begun *before* it passed a fence. Let the
//! note say n, P be that fence, and U the fence of an updater that belongs to n or an earlier one
//! ([`crate::generation::Generations::next`]). The updater read, after U, a number from before n
//! began; the thread read, before P, that it had. So U is before P in the order of all fences, and
//! what the thread reads after P is what the updater left. The note comes after P and is read with
//! Acquire, so what the thread did before P happened before the next step. That is what `grace`
//! asks of the membarrier. Modelled in `models`.
//!
//! A thread whose word is [`FENCED`] passes a fence when it begins its next section, after it has
//! changed the word. Either the leader's fence is before that one, and the section reads what
//! updaters left, or the leader finds another word. A signal handler that reads between that store
//! and that fence passes one of its own, see `reader`. So a thread that waits for a grace period,
//! or will not read for a while, says so with that word, once; its next section takes the slow
//! path, and the unlock of that leaves an ordinary word.
//!
//! The first sections of a thread are like that one after the other
//! ([`crate::word::SECTIONS_COLD`]): a thread that reads seldom, or no more, causes no membarrier,
//! and one that reads a lot has paid for that with what one membarrier costs.
//!
//! A thread that ends leaves the same word, and one that comes finds it.
//!
//! Where moreover no such thread is in a section, after its note, nobody is left who could have
//! something old: whoever is in one later has passed his fence. The sequence need not advance.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sheaves_sys::clock;

use crate::registry::{self, Record};
use crate::word::{self, FENCED, IDLE};

/// How long nobody is interrupted who may pass a fence by himself. Who does nothing but defer seals
/// a sheaf in less than a microsecond.
const PATIENCE_NS: u64 = 20_000;
/// So many grace periods at most do without patience where it was in vain: one after the first
/// such, then twice as many each time.
const WITHOUT_MAX: u32 = 64;

/// Grace periods that are still to do without patience, and how many that were at first. The
/// leader's own.
static WITHOUT: AtomicU32 = AtomicU32::new(0);
static IN_VAIN: AtomicU32 = AtomicU32::new(0);
/// The last grace period used a membarrier. Written by the leader.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Notes that a thread has passed a full fence after it read that `begun` had begun. For that
/// thread. Async-signal-safe: what a handler notes may be overwritten by an older note.
#[inline]
pub(crate) fn note(own: &Record, begun: u64) {
    // Relaxed: the fence before it pairs with the Acquire in `look`: what the thread did before.
    // [R6]
    own.fenced.store(begun, Ordering::Relaxed);
}

/// Has the calling thread's next section pass a fence, unless one is open.
///
/// Not in a signal handler: the thread may be about to begin a section, and have looked at its word
/// already. It would then begin without a fence, while the leader relies on one.
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

/// What a look at all records finds out about a grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// All have passed a fence since it began, or will before they read, and none is in a section
    /// from before that: it is over.
    Gone,
    /// All have passed a fence since it began, or will before they read.
    Fenced,
    /// Not all.
    Unfenced,
}

/// Looks at all threads that read. For the leader, after the fence of
/// [`crate::generation::Generations::begin`].
pub(crate) fn look(number: u64) -> Readers {
    let mut readers = Readers::Gone;
    for record in (0..registry::count()).map(registry::record) {
        // Acquire pairs with the fence before `note`: the word below is that of the fence, or a
        // later one. [R6]
        let has_fenced = record.fenced.load(Ordering::Acquire) >= number;
        // Acquire pairs with the Release of the unlock, in `enter_idle` and in
        // `registry::release`: the sections before. [R4]
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

/// Is it worth while to come back later, for a grace period that began at `began_ns` and for which
/// nobody waits? For the leader.
pub(crate) fn has_patience(began_ns: u64) -> bool {
    // Relaxed, all: the leader's own.
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

/// Notes how the fences of a grace period were passed. For the leader.
pub(crate) fn note_interrupted(is_interrupted: bool) {
    // Relaxed, both: hints, and the leader's own.
    INTERRUPTED.store(is_interrupted, Ordering::Relaxed);
    if !is_interrupted {
        IN_VAIN.store(0, Ordering::Relaxed);
    }
}

/// Did the last grace period interrupt anybody? A hint.
pub(crate) fn has_interrupted() -> bool {
    // Relaxed: a hint.
    INTERRUPTED.load(Ordering::Relaxed)
}
