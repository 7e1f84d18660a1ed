//! Tests of `src/tables/footprint/shift.rs`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;

#[test]
fn replacements_are_counted_and_memory_is_watched() {
    let shift = Shift { phase: Duration::from_millis(20), bytes: 16 * MIB };
    let values = shift.sampler(Glibc).unwrap().sample().unwrap();
    let [rate, mean] = values[..] else { panic!("{values:?}") };
    assert!(rate > 1e4, "{rate}");
    assert!(mean.is_finite());
}

#[test]
fn the_smallest_blocks_have_room() {
    let sizes = log_uniform(RANGES[0].0, RANGES[0].1);
    let mean = sizes.iter().map(|size| usize::from(*size)).sum::<usize>() / sizes.len();
    assert!(mean > SIZE_MEAN_MIN * 5 / 4, "{mean}");
}
