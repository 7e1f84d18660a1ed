//! Tests of `src/tables/pair/mod.rs`.

use super::*;

#[test]
fn bars_follow_the_size() {
    let malloc = |size| bars(size).malloc;
    assert_eq!([1024, 2048, 4096].map(malloc), [Some(1.0), None, Some(0.70)]);
    assert_eq!((bars(64).cache, bars(64).sized), (Some(0.75), Some(0.95)));
}
