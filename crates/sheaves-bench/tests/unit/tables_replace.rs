//! Tests of `src/tables/replace/mod.rs`.

use super::*;
use crate::harness::random::Random;

#[test]
fn sizes_reach_from_16_to_1016() {
    assert_eq!(random_size(0), 16);
    assert_eq!(random_size(u32::MAX), 1016);
    let mut random = Random::new(1);
    let sizes: std::collections::HashSet<_> =
        (0..100_000).map(|_| random_size((random.next() >> 32) as u32)).collect();
    assert_eq!(sizes.len(), SIZES as usize);
}
