//! Bitmaps: searches for the next zero or one, and changes of ranges.
//!
//! Positions after the last word of a map are never read: they end the search.

use super::hints::Run;

pub(super) const WORD_BITS: u32 = u64::BITS;

/// First zero bit at or after `from` and below `end`; `end` when there is none.
#[inline]
pub fn next_zero(map: &[u64], from: u32, end: u32) -> u32 {
    next(map, from, end, u64::MAX)
}

/// First one bit at or after `from` and below `end`; `end` when there is none.
#[inline]
pub fn next_one(map: &[u64], from: u32, end: u32) -> u32 {
    next(map, from, end, 0)
}

/// The runs of zero bits between two positions, in order.
#[inline]
pub(super) fn zero_runs(map: &[u64], from: u32, end: u32) -> impl Iterator<Item = Run> {
    let mut at = from;
    core::iter::from_fn(move || {
        let start = next_zero(map, at, end);
        at = next_one(map, start, end);
        (start < end).then_some(Run { start, end: at })
    })
}

/// First one bit of the words XORed with `flip`.
#[inline(always)]
fn next(map: &[u64], from: u32, end: u32, flip: u64) -> u32 {
    let mut base = from & !(WORD_BITS - 1);
    let mut mask = u64::MAX << (from % WORD_BITS);
    for word in map.get((from / WORD_BITS) as usize..).unwrap_or_default() {
        let word = (word ^ flip) & mask;
        if base >= end || word != 0 {
            return (base + word.trailing_zeros()).min(end);
        }
        mask = u64::MAX;
        base += WORD_BITS;
    }
    end
}

/// The longest run that [`zero_run`] can find.
pub(super) const ZERO_RUN_MAX: u32 = WORD_BITS;

/// Finds `count` consecutive zero bits between `from` and `end`, and returns the first of them,
/// which is at a multiple of `align_mask` + 1. `count` is from 1 to [`ZERO_RUN_MAX`]. Tests all
/// places in a word at once.
#[inline]
pub(super) fn zero_run(
    map: &[u64],
    from: u32,
    end: u32,
    count: u32,
    align_mask: u32,
) -> Option<u32> {
    let aligned = ALIGNED[(align_mask + 1).ilog2().min(WORD_BITS.ilog2()) as usize];
    let mut base = from & !(WORD_BITS - 1);
    let mut first = u64::MAX << (from % WORD_BITS);
    let words = map.get((from / WORD_BITS) as usize..)?;
    for (index, word) in words.iter().enumerate() {
        if base >= end {
            return None;
        }
        // Skips the words without an aligned bit.
        let wanted = if base & align_mask & !(WORD_BITS - 1) == 0 { aligned & first } else { 0 };
        if !word & wanted != 0 {
            // Nothing after the map is free.
            let after = words.get(index + 1).copied().unwrap_or(u64::MAX);
            let free = !(u128::from(after) << WORD_BITS | u128::from(*word));
            let places = runs_begin(free, count) as u64 & wanted;
            if places != 0 {
                let place = base + places.trailing_zeros();
                return (place + count <= end).then_some(place);
            }
        }
        first = u64::MAX;
        base += WORD_BITS;
    }
    None
}

/// The bits at which runs of `count` one bits begin.
#[inline(always)]
fn runs_begin(mut bits: u128, count: u32) -> u128 {
    let mut known = 1;
    while known < count {
        let step = known.min(count - known);
        bits &= bits >> step;
        known += step;
    }
    bits
}

/// The multiples of each power of two in a word.
const ALIGNED: [u64; 7] = {
    let mut masks = [1; 7];
    let mut index = 0;
    while index < 6 {
        // All ones, divided by n ones (n = 1 << index), has a one at each multiple of n.
        masks[index] = u64::MAX / ((1 << (1 << index)) - 1);
        index += 1;
    }
    masks
};

/// The position after the last one bit at or after `floor` and below `from`; `floor` when there is
/// none. This is the start of the run of zeros that ends at `from`.
#[inline]
pub fn run_start(map: &[u64], from: u32, floor: u32) -> u32 {
    let mut at = from;
    while at > floor {
        let index = (at - 1) / WORD_BITS;
        let Some(word) = map.get(index as usize) else { return floor };
        let used = (at - 1) % WORD_BITS + 1;
        let word = word << (WORD_BITS - used);
        if word != 0 {
            return (at - word.leading_zeros()).max(floor);
        }
        at = index * WORD_BITS;
    }
    floor
}

/// True when the bit is one. Positions after the map are not.
#[inline(always)]
pub fn is_one(map: &[u64], bit: u32) -> bool {
    map.get((bit / WORD_BITS) as usize).is_some_and(|word| word >> (bit % WORD_BITS) & 1 != 0)
}

#[inline(always)]
pub(super) fn set(map: &mut [u64], bit: u32) {
    if let Some(word) = map.get_mut((bit / WORD_BITS) as usize) {
        *word |= 1 << (bit % WORD_BITS);
    }
}

/// Sets bits from `start` on and below `end`.
#[inline]
pub fn set_range(map: &mut [u64], start: u32, end: u32) {
    change(map, start, end, |word, mask| *word |= mask);
}

/// Clears bits from `start` on and below `end`.
#[inline]
pub fn clear_range(map: &mut [u64], start: u32, end: u32) {
    change(map, start, end, |word, mask| *word &= !mask);
}

/// Sets bits `start` and `end` and clears those between them; `start` is below `end`.
#[inline]
pub fn mark_ends(map: &mut [u64], start: u32, end: u32) {
    clear_range(map, start, end);
    set(map, start);
    set(map, end);
}

/// Bits `low..=high` of a word, both below 64.
#[inline(always)]
fn mask(low: u32, high: u32) -> u64 {
    (u64::MAX >> (WORD_BITS - 1 - high)) & (u64::MAX << low)
}

#[inline(always)]
fn change(map: &mut [u64], start: u32, end: u32, apply: impl Fn(&mut u64, u64)) {
    if start >= end {
        return;
    }
    let (first, last) = ((start / WORD_BITS) as usize, ((end - 1) / WORD_BITS) as usize);
    let (low, high) = (start % WORD_BITS, (end - 1) % WORD_BITS);
    let Some(words) = map.get_mut(first..=last) else { return };
    match words {
        [] => {}
        [only] => apply(only, mask(low, high)),
        [head, middle @ .., tail] => {
            apply(head, mask(low, WORD_BITS - 1));
            for word in middle {
                apply(word, u64::MAX);
            }
            apply(tail, mask(0, high));
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/dynamic_bits.rs"]
mod tests;
