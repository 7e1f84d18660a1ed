//! Tests of private items of `errno`.

use super::*;

#[test]
fn preserve_restores() {
    set(7);
    preserve(|| set(9));
    assert_eq!(get(), 7);
}
