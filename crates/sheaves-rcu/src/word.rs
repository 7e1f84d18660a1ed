//! The two words of a reading thread, as numbers.
//!
//! Grace periods read the first word:
//!
//! | bits | what |
//! |---|---|
//! | 16..64 | sequence: the process's at the begin of the outermost section |
//! | 15 | fenced: this section orders itself by a fence |
//! | 0 | reading: a section is open |
//!
//! | value | meaning | written by | transitions |
//! |---|---|---|---|
//! | [`IDLE`] | no section | its thread | -> reading, by the outermost lock |
//! | sequence, reading | in a section | its thread | -> [`IDLE`], by the last unlock |
//! | [`IDLE`] | no section | its thread | -> [`FENCED`], by `enter_idle` |
//! | [`FENCED`] | no section, the next one is fenced | its thread | -> reading with the bit |
//! | sequence, fenced, reading | in a section | its thread | -> [`IDLE`], or back to [`FENCED`] |
//! | all ones | a thread without words of its own | never: it is a constant | none |
//!
//! The second word is for the thread itself, and says what its unlock has to do:
//!
//! | value | meaning | transitions |
//! |---|---|---|
//! | 0 | at most one section is open | n -> n + 1, n - 1 by nested sections |
//! | n | n + 1 sections are open | |
//! | [`SLOWLY`] and n | the same, and the reader always fences | |
//! | [`SLOWLY`], c and n | the same, and c more sections fence | c -> c - 1 by an outermost lock |
//! | all ones | a thread without words of its own | none |
//!
//! A lock tests the first word for [`IDLE`], an unlock tests the second word for 0. With one word
//! for both, an unlock would wait for the store of its lock. Nesting, fences and registration are
//! handled where such a test fails. Other threads write to the words only when the thread is gone,
//! and in the child of a fork.

/// No section is open, and none needs a fence.
pub(crate) const IDLE: u64 = 0;
/// The bit of sections that order themselves by a fence. These are all sections where membarrier is
/// refused; elsewhere the first ones of a thread, and the first one after it was idle.
pub(crate) const FENCED: u64 = 1 << 15;
/// The bit of an open section.
pub(crate) const READING: u64 = 1;
/// In the second word: every unlock takes the slow path, and [`FENCED`] is not replaced by
/// [`IDLE`].
#[cfg(not(loom))]
pub(crate) const SLOWLY: u64 = 1 << 63;
/// In the second word: the bits that count nested sections.
#[cfg(not(loom))]
pub(crate) const INSIDE: u64 = u32::MAX as u64;
/// In the second word: one more section that fences.
#[cfg(not(loom))]
const COLD: u64 = 1 << 32;
/// The first sections of a thread fence; this is how many. Together they cost the thread about what
/// one membarrier costs. A thread that enters fewer causes no membarrier.
#[cfg(not(loom))]
pub(crate) const SECTIONS_COLD: u64 = 256;

/// The second word of a thread that registers where membarrier is allowed.
#[cfg(not(loom))]
pub(crate) const fn cold() -> u64 {
    SLOWLY | (SECTIONS_COLD * COLD)
}

/// The second word after one more fenced section has begun.
#[cfg(not(loom))]
pub(crate) const fn warmed(second: u64) -> u64 {
    match (second & !SLOWLY) / COLD {
        0 => second,
        1 => second & INSIDE,
        _ => second - COLD,
    }
}
/// The distance between two sequences.
pub(crate) const STEP: u64 = 1 << 16;
/// The first value of the process's word: sequence 1, reading.
pub(crate) const FIRST: u64 = STEP | READING;

/// True if a section is open.
#[inline]
pub(crate) const fn is_reading(word: u64) -> bool {
    word & READING != 0
}

/// True if a grace period that has advanced the process's word to `global` need not wait for this
/// reader.
///
/// The reader has no open section, or the section began after the advance. A reader that has copied
/// an older sequence long ago and stores it only now delays the grace period.
#[inline]
pub(crate) const fn has_passed(word: u64, global: u64) -> bool {
    !is_reading(word) || (word ^ global) < STEP
}

/// The word of an outermost section that begins while the process's word is `global`.
#[inline]
pub(crate) const fn outermost(idle: u64, global: u64) -> u64 {
    global | (idle & FENCED)
}

/// The word after the outermost section has ended.
#[inline]
pub(crate) const fn left(word: u64) -> u64 {
    word & FENCED
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sections_end_where_they_began() {
        for idle in [IDLE, FENCED] {
            let outer = outermost(idle, FIRST + 5 * STEP);
            assert!(is_reading(outer) && !is_reading(idle));
            assert_eq!(left(outer), idle);
        }
    }

    #[test]
    fn threads_fence_at_first_only() {
        let warm = (0..SECTIONS_COLD).fold(cold(), |second, _| {
            assert!(second & SLOWLY != 0);
            warmed(second)
        });
        assert_eq!((warm, warmed(warm)), (0, 0));
        assert_eq!(warmed(SLOWLY), SLOWLY, "for good");
        assert_eq!(warmed(SLOWLY | COLD | 7), 7);
    }

    #[test]
    fn only_other_sequences_hold_up() {
        let global = FIRST + 9 * STEP;
        assert!(has_passed(IDLE, global) && has_passed(FENCED, global));
        assert!(has_passed(outermost(FENCED, global), global));
        assert!(!has_passed(outermost(IDLE, global - STEP), global));
        assert!(!has_passed(outermost(IDLE, global + STEP), global));
    }
}
