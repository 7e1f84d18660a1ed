//! Tests of private items of `defer/store/head`.

use super::*;

#[test]
fn a_head_is_queued_once() {
    let head = Head::new();
    assert!(head.claim(16));
    assert!(!head.claim(16));
    assert_eq!(head.finish(), Some(16));
    assert_eq!(head.finish(), None);
    assert!(head.claim(32));
}
