//! The state of a reading thread, and how its sections change it.
//!
//! Grace periods read `state`:
//!
//! | bits | what |
//! |---|---|
//! | 16..64 | sequence: the process's at the begin of the outermost section |
//! | 15 | fenced: this section orders itself by a fence |
//! | 0 | reading: a section is open |
//!
//! | value | meaning | written by | transitions |
//! |---|---|---|---|
//! | [`OUTSIDE`] | no section | its thread | -> reading, by the outermost lock |
//! | sequence, reading | in a section | its thread | -> [`OUTSIDE`], by the last unlock |
//! | [`OUTSIDE`] | no section | its thread | -> [`OUTSIDE_FENCED`], by `enter_idle` |
//! | [`OUTSIDE_FENCED`] | no section, the next one fences | its thread | -> reading with the bit |
//! | sequence, fenced, reading | in a section | its thread | -> either, by the last unlock |
//! | all ones | a thread without a record | never: it is a constant | none |
//!
//! `nesting` is for the thread itself, and says what its unlock has to do:
//!
//! | value | meaning | transitions |
//! |---|---|---|
//! | 0 | at most one section is open | n -> n + 1, n - 1 by nested sections |
//! | n | n + 1 sections are open | |
//! | [`SLOW`] and n | the same, and the reader always fences | |
//! | [`SLOW`], c and n | the same, and c more sections fence | c -> c - 1 by an outermost lock |
//! | [`AWAITED`] and these | the leader sleeps until the section ends | -> without, by the unlock |
//! | all ones | a thread without a record | none |
//!
//! The leader sets [`AWAITED`] in the nesting of another thread, which may lose it, or find it too
//! late: the leader sleeps for a limited time.
//!
//! A lock tests `state` for [`OUTSIDE`], an unlock tests `nesting` for 0: with one word for both,
//! an unlock would wait for the store of its lock. Other threads write to the words only when the
//! thread is gone, and in the child of a fork.
//!
//! `fenced` is the last grace period that had begun before the thread's last full fence. Let it be
//! n, P that fence, and U the fence of an updater that belongs to n or an earlier one
//! ([`super::generation::Generations::next`]). The updater read after U that n had not begun; the
//! thread read before P that it had. So U is before P in the order of all fences, and what the
//! thread reads after P is what the updater stored. `fenced` is stored after P and read with
//! Acquire, so what the thread did before P happened before the leader's next step.
//!
//! A thread whose `state` is [`OUTSIDE_FENCED`] passes a fence when it begins its next section,
//! after it has stored its new state. If the leader's fence is before that fence, the section reads
//! what updaters stored; otherwise the leader reads the new state.

use core::sync::atomic::compiler_fence;

use super::machine::{AtomicU64, Ordering, fence};

/// No section is open, and the next one needs no fence.
pub(crate) const OUTSIDE: u64 = 0;
/// The bit of sections that order themselves by a fence: all of them where membarrier is refused,
/// otherwise the first ones of a thread, and the first one after `enter_idle`.
pub(crate) const FENCED: u64 = 1 << 15;
/// No section is open, and the next one fences.
pub(crate) const OUTSIDE_FENCED: u64 = FENCED;
pub(crate) const READING: u64 = 1;
pub(crate) const STEP: u64 = 1 << 16;
/// The first value of the process's sequence: number 1, reading.
pub(crate) const FIRST: u64 = STEP | READING;
/// In `nesting`: every unlock takes the slow path, and [`FENCED`] stays in `state`.
pub(crate) const SLOW: u64 = 1 << 63;
/// In `nesting`: the last unlock wakes the leader.
pub(crate) const AWAITED: u64 = 1 << 62;
/// In `nesting`: the bits that count nested sections.
pub(crate) const NESTED: u64 = u32::MAX as u64;
/// In `nesting`: one more section that fences.
pub(super) const COLD: u64 = 1 << 32;
/// Number of first sections of a thread that fence: together they cost about one membarrier.
pub(crate) const SECTIONS_COLD: u64 = 256;

/// The part of a thread's record that sections and grace periods use. Zero bytes are valid.
#[repr(C)]
pub(crate) struct Reader {
    /// See the module documentation, here and below.
    pub(crate) state: AtomicU64,
    pub(crate) nesting: AtomicU64,
    pub(crate) fenced: AtomicU64,
}

/// What a grace period knows of one reader, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Readers {
    /// It has passed a fence since the grace period began, or will before it reads, and is in no
    /// section from before that. If all are gone, the grace period is over.
    Gone,
    /// It has passed a fence since the grace period began, or will before it reads.
    Fenced,
    /// It has not.
    Unfenced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// None was open here.
    NoSection,
    Section,
    /// The leader sleeps until then.
    Awaited,
}

impl Reader {
    /// Begins an outermost section that needs no fence; false in other cases.
    #[inline(always)]
    pub(crate) fn enter(&self, sequence: &AtomicU64) -> bool {
        // Relaxed, both: only this thread writes the state. The sequence may be an old one: then a
        // grace period waits longer.
        let is_outside = self.state.load(Ordering::Relaxed) == OUTSIDE;
        if is_outside {
            let now = sequence.load(Ordering::Relaxed);
            // Release pairs with the Acquire of the scan: the section before this one is over. [R4]
            self.state.store(now, Ordering::Release);
            // SeqCst, for the compiler only: the section stays after the store. It pairs with the
            // membarrier of the grace period. [R3]
            compiler_fence(Ordering::SeqCst);
        }
        is_outside
    }

    /// Begins any section. `None` if too many are open, otherwise whether it is the outermost one.
    pub(crate) fn enter_slow(&self, sequence: &AtomicU64) -> Option<bool> {
        // Relaxed, here and below: only this thread writes its state.
        let state = self.state.load(Ordering::Relaxed);
        if is_reading(state) {
            let nesting = self.nesting.load(Ordering::Relaxed);
            if nesting & NESTED == NESTED {
                return None;
            }
            self.nesting.store(nesting + 1, Ordering::Relaxed);
        } else {
            let now = sequence.load(Ordering::Relaxed);
            // Release, as in `enter`. [R4]
            self.state.store(outermost(state, now), Ordering::Release);
            if state & FENCED != 0 {
                let nesting = self.nesting.load(Ordering::Relaxed);
                self.nesting.store(warmed(nesting), Ordering::Relaxed);
            }
        }
        if state & FENCED != 0 {
            // SeqCst pairs with the heavy fence of the grace period. A nested section fences, too:
            // a signal handler may come between the outermost section's store and its fence. [R2]
            fence(Ordering::SeqCst);
        }
        // SeqCst, for the compiler only, as in `enter`. [R3]
        compiler_fence(Ordering::SeqCst);
        Some(!is_reading(state))
    }

    /// Ends any section; says what is left to do.
    pub(crate) fn leave_slow(&self) -> Left {
        // Relaxed, here and below: the thread's own words.
        let state = self.state.load(Ordering::Relaxed);
        if !is_reading(state) {
            return Left::NoSection;
        }
        let nesting = self.nesting.load(Ordering::Relaxed);
        if nesting & NESTED != 0 {
            self.nesting.store(nesting - 1, Ordering::Relaxed);
            return Left::Section;
        }
        // Release pairs with the Acquire of the scan: the section is over. [R4]
        self.state.store(left(state), Ordering::Release);
        if nesting & AWAITED == 0 {
            return Left::Section;
        }
        self.nesting.store(nesting & !AWAITED, Ordering::Relaxed);
        Left::Awaited
    }

    /// For the leader: has the end of the section that is open wake it, mostly.
    pub(crate) fn ask_to_wake(&self) {
        // Relaxed: what depends on it has a time limit. The reader may write the word by a load and
        // a store: then it overwrites this, which never overwrites what the reader has written.
        self.nesting.fetch_or(AWAITED, Ordering::Relaxed);
    }

    /// Notes that the calling thread has passed a full fence after it read that `begun` had begun.
    /// Async-signal-safe: an older note may overwrite a handler's.
    #[inline]
    pub(crate) fn note_fence(&self, begun: u64) {
        // Relaxed: the fence before it pairs with the Acquire in `passed`, for what the thread did
        // before. [R6]
        self.fenced.store(begun, Ordering::Relaxed);
    }

    /// What grace period `number` knows of this reader. For the leader, after the fence of
    /// [`super::generation::Generations::begin`].
    pub(crate) fn passed(&self, number: u64) -> Readers {
        // Acquire pairs with the fence before `note_fence`: the state read below is the one at that
        // fence, or a later one. [R6]
        let has_fenced = self.fenced.load(Ordering::Acquire) >= number;
        // Acquire pairs with the Release of the unlock, in `enter_idle` and in `registry::clear`:
        // the sections before. [R4]
        let state = self.state.load(Ordering::Acquire);
        match has_fenced {
            true if is_reading(state) => Readers::Fenced,
            false if state != OUTSIDE_FENCED => Readers::Unfenced,
            _ => Readers::Gone,
        }
    }

    /// True if a grace period that has advanced the sequence to `global` need not wait for this.
    pub(crate) fn has_passed(&self, global: u64) -> bool {
        // Acquire pairs with the Release of the unlock: the section is over. [R4]
        has_passed(self.state.load(Ordering::Acquire), global)
    }
}

/// The nesting of a thread that registers where membarrier is allowed.
pub(crate) const fn cold() -> u64 {
    SLOW | (SECTIONS_COLD * COLD)
}

/// The nesting after one more fenced section has begun.
pub(crate) const fn warmed(nesting: u64) -> u64 {
    match (nesting & !(SLOW | AWAITED)) / COLD {
        0 => nesting,
        1 => nesting & (NESTED | AWAITED),
        _ => nesting - COLD,
    }
}

#[inline]
pub(crate) const fn is_reading(state: u64) -> bool {
    state & READING != 0
}

/// True if the reader has no open section, or the section began after the advance to `global`. A
/// reader that stores an older sequence late delays the grace period.
#[inline]
pub(crate) const fn has_passed(state: u64, global: u64) -> bool {
    !is_reading(state) || (state ^ global) < STEP
}

/// The state of an outermost section that begins while the process's sequence is `global`.
#[inline]
pub(crate) const fn outermost(outside: u64, global: u64) -> u64 {
    global | (outside & FENCED)
}

/// The state after the outermost section has ended.
#[inline]
pub(crate) const fn left(state: u64) -> u64 {
    state & FENCED
}
