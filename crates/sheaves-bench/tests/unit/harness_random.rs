//! Tests of `src/harness/random.rs`.

use crate::harness::random::*;

#[test]
fn the_shuffle_is_a_permutation_and_repeats() {
    let mut numbers: Vec<u32> = (0..1000).collect();
    Random::new(7).shuffle(&mut numbers);
    let mut again: Vec<u32> = (0..1000).collect();
    Random::new(7).shuffle(&mut again);
    assert_eq!(numbers, again);
    assert_ne!(numbers[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
}

#[test]
fn scaled_numbers_stay_below_the_bound() {
    let mut random = Random::new(3);
    assert!((0..10_000).all(|_| random.below(126) < 126));
    assert_eq!(scale(u32::MAX, 126), 125);
    assert_eq!(scale(0, 126), 0);
}
