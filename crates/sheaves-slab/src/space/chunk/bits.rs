//! Runs of bits in a word of 32: the granules of a chunk.

/// The bits at which `count` set bits in a row begin.
pub(super) fn runs_of(free: u32, count: usize) -> u32 {
    let (mut bits, mut length) = (free, 1);
    while length < count {
        let step = length.min(count - length);
        bits &= bits >> step;
        length += step;
    }
    bits
}

/// The length of the longest run of set bits.
pub(super) fn longest_run(mut bits: u32) -> usize {
    let mut length = 0;
    while bits != 0 {
        bits &= bits >> 1;
        length += 1;
    }
    length
}

/// The lowest `count` of the set bits.
pub(super) fn lowest(bits: u32, count: usize) -> u32 {
    let others = (0..count.min(32)).fold(bits, |bits, _| bits & bits.wrapping_sub(1));
    bits & !others
}

/// The bits at multiples of a power of two.
pub(super) fn multiples_of(align: usize) -> u32 {
    (0..32).filter(|bit| bit % align == 0).fold(0, |bits, bit| bits | 1 << bit)
}

pub(super) fn mask(bit: u32, count: usize) -> u32 {
    let ones = if count == 32 { u32::MAX } else { (1 << count) - 1 };
    ones << bit
}
