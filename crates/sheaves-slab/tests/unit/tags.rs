//! Tests of private items of `moves/tags`.

extern crate std;

use core::alloc::Layout;
use std::vec;

use super::*;

#[test]
fn tags_are_as_frequent_as_samples_should_be() {
    let _one = profile::TESTING.lock();
    let shape = Shape::new(Layout::from_size_align(64, 8).unwrap()).unwrap();
    assert!(profile::begin(4096));
    let chance = 1.0 - (-64.0_f64 / 4096.0).exp();
    let mut counts = [0_usize; 31];
    const SHEAVES: usize = 40_000;
    for _ in 0..SHEAVES {
        let mut objects = vec![0x1000_usize; 31];
        tag(&shape, &mut objects);
        for (count, object) in counts.iter_mut().zip(objects) {
            assert_eq!(object & !TAG, 0x1000);
            *count += object & TAG;
        }
    }
    // Each place alike: five standard errors.
    let expected = SHEAVES as f64 * chance;
    for (place, count) in counts.iter().enumerate() {
        let deviation = (*count as f64 - expected).abs();
        assert!(deviation < 5.0 * expected.sqrt(), "place {place}: {count} of {expected}");
    }
    profile::end();
    let mut objects = vec![0x1000_usize; 1000];
    tag(&shape, &mut objects);
    assert!(objects.iter().all(|object| *object == 0x1000));
}
