//! The word by which a thread tells that it reads, as numbers.
//!
//! | bits | what |
//! |---|---|
//! | 16..64 | sequence: that of the process when the outermost section began |
//! | 15 | fenced: this reader orders itself by fences, membarrier being refused |
//! | 0..15 | nesting: how many sections are open, 0 for none |
//!
//! | value | meaning | written by | transitions |
//! |---|---|---|---|
//! | [`IDLE`] | no section | its thread | -> reading, by the outermost lock |
//! | sequence, nesting n | reading | its thread | n -> n + 1, n - 1; from 1 -> [`IDLE`] |
//! | [`FENCED`] | no section, fenced | its thread | -> reading with the bit, and back |
//! | all ones | a thread without a word of its own | nobody: it is a constant | none |
//!
//! The fast paths test for [`IDLE`] when they lock, and for a low half of 1 when they unlock.
//! Everything else, nesting, fences and registration, lies behind these two tests. Others than the
//! thread itself write to the word only when the thread is gone, and in the child of a fork.

/// No section is open, and none needs a fence.
pub(crate) const IDLE: u64 = 0;
/// The bit of readers that order themselves by fences.
pub(crate) const FENCED: u64 = 1 << 15;
/// The bits that count open sections.
pub(crate) const NESTING: u64 = FENCED - 1;
/// One more grace period.
pub(crate) const STEP: u64 = 1 << 16;
/// The word that the first outermost lock copies: sequence 1, nesting 1.
pub(crate) const FIRST: u64 = STEP | 1;

/// How many sections are open.
#[inline]
pub(crate) const fn nesting(word: u64) -> u64 {
    word & NESTING
}

/// Does a grace period that has advanced the process's word to `global` need this reader no more?
///
/// Either it reads nothing, or it began after the advance. A reader that copied an older sequence
/// long ago and stores it only now counts as one that holds the grace period up.
#[inline]
pub(crate) const fn has_passed(word: u64, global: u64) -> bool {
    nesting(word) == 0 || (word ^ global) < STEP
}

/// The word of an outermost section that begins while the process's word is `global`.
#[inline]
pub(crate) const fn outermost(idle: u64, global: u64) -> u64 {
    global | (idle & FENCED)
}

/// The word after the innermost section has ended. `word` has one open at least.
#[inline]
pub(crate) const fn left(word: u64) -> u64 {
    if nesting(word) == 1 { word & FENCED } else { word - 1 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sections_nest_and_end_where_they_began() {
        for idle in [IDLE, FENCED] {
            let outer = outermost(idle, FIRST + 5 * STEP);
            assert_eq!(nesting(outer), 1);
            assert_eq!(left(outer + 1), outer);
            assert_eq!(left(outer), idle);
        }
    }

    #[test]
    fn only_other_sequences_hold_up() {
        let global = FIRST + 9 * STEP;
        assert!(has_passed(IDLE, global) && has_passed(FENCED, global));
        assert!(has_passed(outermost(FENCED, global) + 3, global));
        assert!(!has_passed(outermost(IDLE, global - STEP), global));
        assert!(!has_passed(outermost(IDLE, global + STEP), global));
    }
}
