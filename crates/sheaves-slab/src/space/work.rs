//! Bounds what a call of the program does on the side: in pieces, which end after an amount of
//! work.
//!
//! The unit is a look at a slab, of up to 100 ns. An amount is counted rather than time, so that
//! what a piece does is the same each time.

use crate::space::hint::Hint;

/// A free object becomes one of a slab: two cache misses.
pub(crate) const OF_OBJECT: usize = 2;
/// A system call discards pages; and each of them.
pub(crate) const OF_CALL: usize = 15;
pub(crate) const OF_PAGE: usize = 1;
/// A system call gives advice, which splits a mapping.
pub(crate) const OF_ADVICE: usize = 30;
/// What a piece does at least: 20 us.
const LOOKS_MIN: usize = 200;
/// What is unused may be this many times what is in use until pieces grow with that, up to 16 times
/// the least.
const TIMES_UNUSED: usize = 8;

/// What a piece does.
static LOOKS: Hint = Hint::new(LOOKS_MIN);
/// What all threads have done.
static DONE: Hint = Hint::new(0);

/// Notes work that is done.
pub(crate) fn note(looks: usize) {
    DONE.set(DONE.get().wrapping_add(looks));
}

/// From now on pieces are for a heap with this many times as much unused as in use: the less is in
/// use, the fewer frees are left, and the last one may be the last call.
pub(crate) fn fit_to(times_unused: usize) {
    LOOKS.set(LOOKS_MIN * (times_unused / TIMES_UNUSED).clamp(1, 16));
}

/// A piece in progress. What other threads do meanwhile counts, too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    begin: usize,
    looks: usize,
}

impl Piece {
    pub(crate) fn begin() -> Piece {
        Piece { begin: DONE.get(), looks: LOOKS.get() }
    }

    /// One that ends with what it does.
    pub(crate) fn whole() -> Piece {
        Piece { begin: 0, looks: usize::MAX }
    }

    pub(crate) fn is_over(&self) -> bool {
        DONE.get().wrapping_sub(self.begin) >= self.looks
    }
}
