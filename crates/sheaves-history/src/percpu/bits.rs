//! Bitmaps: finding the next zero or one, setting and clearing ranges. Positions after the last
//! word of a map are never read: they end a search.

/// Bits of a word.
pub(super) const WORD_BITS: u32 = u64::BITS;

/// First zero bit at or after `from` and below `end`; `end` when there is none.
#[inline]
pub(super) fn next_zero(map: &[u64], from: u32, end: u32) -> u32 {
    next(map, from, end, u64::MAX)
}

/// First one bit at or after `from` and below `end`; `end` when there is none.
#[inline]
pub(super) fn next_one(map: &[u64], from: u32, end: u32) -> u32 {
    next(map, from, end, 0)
}

/// First one bit of the words, each xored with `flip`.
#[inline(always)]
fn next(map: &[u64], from: u32, end: u32, flip: u64) -> u32 {
    if from >= end {
        return end;
    }
    let first = (from / WORD_BITS) as usize;
    let Some((word, rest)) = map.get(first..).and_then(<[u64]>::split_first) else { return end };
    let mut base = from & !(WORD_BITS - 1);
    let word = (word ^ flip) & (u64::MAX << (from % WORD_BITS));
    if word != 0 {
        return (base + word.trailing_zeros()).min(end);
    }
    for word in rest {
        base += WORD_BITS;
        if base >= end {
            return end;
        }
        let word = word ^ flip;
        if word != 0 {
            return (base + word.trailing_zeros()).min(end);
        }
    }
    end
}

/// The position after the last one bit at or after `floor` and before `from`; `floor` when there is
/// none. That is the start of the run of zeros that ends at `from`.
#[inline]
pub(super) fn run_start(map: &[u64], from: u32, floor: u32) -> u32 {
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

/// True when the bit is one. Positions after the map are zero.
#[inline(always)]
pub(super) fn is_one(map: &[u64], bit: u32) -> bool {
    map.get((bit / WORD_BITS) as usize).is_some_and(|word| word >> (bit % WORD_BITS) & 1 != 0)
}

/// Sets bits `start..end`.
#[inline]
pub(super) fn set_range(map: &mut [u64], start: u32, end: u32) {
    change(map, start, end, |word, mask| *word |= mask);
}

/// Clears bits `start..end`.
#[inline]
pub(super) fn clear_range(map: &mut [u64], start: u32, end: u32) {
    change(map, start, end, |word, mask| *word &= !mask);
}

/// Sets bits `start` and `end` and clears those between; `start` is below `end`.
#[inline]
pub(super) fn mark_ends(map: &mut [u64], start: u32, end: u32) {
    let (first, last) = ((start / WORD_BITS) as usize, (end / WORD_BITS) as usize);
    let (begin, stop) = (1 << (start % WORD_BITS), 1 << (end % WORD_BITS));
    // Bits from the start on, and bits before the end.
    let (from, before) = (u64::MAX << (start % WORD_BITS), stop - 1);
    let Some(words) = map.get_mut(first..=last) else { return };
    match words {
        [] => {}
        [only] => *only = *only & !(from & before) | begin | stop,
        [head, middle @ .., tail] => {
            *head = *head & !from | begin;
            middle.fill(0);
            *tail = *tail & !before | stop;
        }
    }
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

/// Number of words that a search reads between two positions, for the counters.
#[inline(always)]
pub(super) fn words_between(from: u32, to: u32) -> u64 {
    u64::from((to / WORD_BITS).saturating_sub(from / WORD_BITS)) + 1
}
