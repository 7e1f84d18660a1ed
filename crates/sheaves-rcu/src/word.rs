//! The two words of a thread that reads, as numbers.
//!
//! The first is what grace periods look at:
//!
//! | bits | what |
//! |---|---|
//! | 16..64 | sequence: that of the process when the outermost section began |
//! | 15 | fenced: this section orders itself by a fence |
//! | 0 | reading: a section is open |
//!
//! | value | meaning | written by | transitions |
//! |---|---|---|---|
//! | [`IDLE`] | no section | its thread | -> reading, by the outermost lock |
//! | sequence, reading | in a section | its thread | -> [`IDLE`], by the last unlock |
//! | [`IDLE`] | no section | its thread | -> [`FENCED`], by who will not read for a while |
//! | [`FENCED`] | no section, the next one is fenced | its thread | -> reading with the bit |
//! | sequence, fenced, reading | in a section | its thread | -> [`IDLE`], or back to [`FENCED`] |
//! | all ones | a thread without words of its own | nobody: it is a constant | none |
//!
//! The second is for the thread itself, and says what its unlock has to do:
//!
//! | value | meaning | transitions |
//! |---|---|---|
//! | 0 | at most one section is open | n -> n + 1, n - 1 by sections inside others |
//! | n | n more than one are open | |
//! | [`SLOWLY`] and n | the same, and the reader is fenced for good | |
//! | [`SLOWLY`], c and n | the same, for c more sections | c -> c - 1 by an outermost lock |
//! | all ones | a thread without words of its own | none |
//!
//! The fast paths test the first for [`IDLE`] when they lock, and the second for 0 when they
//! unlock: with one word for both, an unlock would wait for the store of its lock. Everything else,
//! nesting, fences and registration, lies behind these two tests. Others than the thread itself
//! write to the words only when the thread is gone, and in the child of a fork.

/// No section is open, and none needs a fence.
pub(crate) const IDLE: u64 = 0;
/// The bit of sections that order themselves by fences: all where membarrier is refused, otherwise
/// the first ones of a thread, and the first one after it was idle.
pub(crate) const FENCED: u64 = 1 << 15;
/// The bit of an open section.
pub(crate) const READING: u64 = 1;
/// In the second word: no unlock is a fast one, and [`IDLE`] does not follow [`FENCED`].
#[cfg(not(loom))]
pub(crate) const SLOWLY: u64 = 1 << 63;
/// In the second word: sections inside others.
#[cfg(not(loom))]
pub(crate) const INSIDE: u64 = u32::MAX as u64;
/// In the second word: one more section until the thread reads without fences.
#[cfg(not(loom))]
const COLD: u64 = 1 << 32;
/// So many sections of a thread fence before the others do not. Together they cost it about what
/// one membarrier costs, and a thread that reads less often than that causes none.
#[cfg(not(loom))]
pub(crate) const SECTIONS_COLD: u64 = 256;

/// The second word of a thread that has registered where others can be made to fence.
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
/// One more grace period.
pub(crate) const STEP: u64 = 1 << 16;
/// The word that the first outermost lock copies: sequence 1, reading.
pub(crate) const FIRST: u64 = STEP | READING;

/// Is a section open?
#[inline]
pub(crate) const fn is_reading(word: u64) -> bool {
    word & READING != 0
}

/// Does a grace period that has advanced the process's word to `global` need this reader no more?
///
/// Either it reads nothing, or it began after the advance. A reader that copied an older sequence
/// long ago and stores it only now counts as one that holds the grace period up.
#[inline]
pub(crate) const fn has_passed(word: u64, global: u64) -> bool {
    !is_reading(word) || (word ^ global) < STEP
}

/// The word of an outermost section that begins while the process's word is `global`.
#[inline]
pub(crate) const fn outermost(idle: u64, global: u64) -> u64 {
    global | (idle & FENCED)
}

/// The word after the last section has ended.
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
