//! What is to be done about unused memory once no lock is held: bits. `deal` does it.
//!
//! | bit | set by | done by | in which thread |
//! |---|---|---|---|
//! | `KEEP` | [`note_unused`], if the library's thread sleeps | arming the keeper | any |
//! | `START` | the same, if there is no such thread | starting it, at an allocation | any |
//! | `SURPLUS` | a run freed, too much dirty, no keeper | discarding a piece | any |
//! | `TICK` | a use a period after the last tick, no keeper | a tick | any |
//! | `LIMIT` | bytes that come near the limit | returning all that is unused | any |
//! | `SWEEP` | [`note_sweep`] | waking or starting it, at an allocation: it sweeps | any |
//! | `GONE` | a fork under the lock, in the child | freeing what missing threads worked on | any |

use core::sync::atomic::{AtomicU32, Ordering};

use sheaves_rcu::internal::{self, keeper};

use crate::space::hint::Hint;
use crate::space::limit;

pub(super) const KEEP: u32 = 1;
pub(super) const START: u32 = 2;
pub(super) const SURPLUS: u32 = 4;
pub(super) const TICK: u32 = 8;
pub(super) const LIMIT: u32 = 16;
pub(super) const SWEEP: u32 = 32;
pub(super) const GONE: u32 = 64;
/// What allocations do and frees leave to them, since it may start the library's thread.
pub(super) const AT_ALLOC: u32 = START | SWEEP;

static DUE: AtomicU32 = AtomicU32::new(0);
/// When the last tick was, or became due; 0 before the first use.
static TICKED_MS: Hint = Hint::new(0);

// Relaxed, all of this file: a bit only tells that there is work, which is under locks.

pub(super) fn note(bits: u32) {
    // Relaxed, both: as above.
    if DUE.load(Ordering::Relaxed) & bits != bits {
        DUE.fetch_or(bits, Ordering::Relaxed);
    }
}

/// What is due of `bits`.
pub(super) fn pending(bits: u32) -> u32 {
    // Relaxed: as above.
    DUE.load(Ordering::Relaxed) & bits
}

/// Takes what is due of `bits`, for one caller that does the work.
pub(super) fn take(bits: u32) -> u32 {
    // Relaxed: as above.
    DUE.fetch_and(!bits, Ordering::Relaxed) & bits
}

/// The library's thread is started where more than this is unused.
const START_BYTES: usize = 32 << 20;

/// There is work for the keeper: this much is unused, here or in a layer above. On slow paths: it
/// has a fence.
pub fn note_unused(bytes: usize) {
    if !keeper::is_armed_fenced() && keeper::decay_ms().is_some() {
        match internal::reclaimer_thread() {
            Some(_) => note(KEEP),
            None if bytes > START_BYTES => note(START),
            None => {}
        }
    }
}

/// There is something that only the library's thread may do: starts it, if it does not exist.
pub(crate) fn note_sweep() {
    note(SWEEP);
}

/// Notes a tick if the last one, or the first use, was a period ago.
pub(super) fn note_time(now_ms: u64, period_ms: u64) {
    let last_ms = TICKED_MS.get() as u64;
    if now_ms.wrapping_sub(last_ms) >= period_ms {
        note_tick(now_ms);
        if last_ms != 0 {
            note(TICK);
        }
    }
}

/// There was a tick.
pub(super) fn note_tick(now_ms: u64) {
    TICKED_MS.set(now_ms as usize);
}

/// Called by caches that are used, now and then: so there are ticks where there is no keeper.
pub(crate) fn note_use(now_ms: u64) {
    if !keeper::is_active()
        && let Some(period_ms) = keeper::period_ms()
    {
        note_time(now_ms, period_ms);
    }
}

/// Called when the bytes of the chunks in use or dirty have changed.
pub(super) fn note_bytes(bytes: usize) {
    if limit::note_own(bytes) {
        note(LIMIT);
    }
}

/// Called when the bytes of the layers above in use or dirty have changed.
pub fn note_other_bytes(bytes: usize) {
    if limit::note_other(bytes) {
        note(LIMIT);
    }
}
