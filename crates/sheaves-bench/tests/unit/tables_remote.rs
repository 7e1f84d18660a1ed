//! Tests of `src/tables/remote/mod.rs`.

use super::*;

#[test]
fn one_to_one_has_bars() {
    let malloc = |path, size| bars(path, size).malloc;
    assert_eq!(malloc(ONE_TO_ONE, 64), Some(1.10));
    assert_eq!(malloc(ONE_TO_ONE, 256), None);
    assert_eq!(malloc(ONE_TO_ONE, 1024), Some(0.90));
    assert_eq!(malloc(PATHS[1], 1024), None);
}
