//! Tests of `src/harness/chart/curves.rs`.

use super::*;

#[test]
fn names_are_moved_apart_and_stay_in_the_picture() {
    assert_eq!(apart(vec![0, 100, 200], 300), [0, 100, 200]);
    assert_eq!(apart(vec![90, 90, 90, 200], 300), [90, 106, 122, 200]);
    assert_eq!(apart(vec![290, 295, 300], 300), [268, 284, 300]);
    assert!(apart(Vec::new(), 300).is_empty());
}
