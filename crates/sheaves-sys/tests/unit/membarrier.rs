//! Tests of private items of `membarrier`.

use super::*;

#[test]
fn fence_works_where_the_kernel_offers_it() {
    assert_eq!(register_fence_all(), fence_all());
}

#[test]
fn refused_command_keeps_errno() {
    crate::errno::set(7);
    assert_eq!(membarrier(-1), -1);
    assert_eq!(crate::errno::get(), 7);
}

#[test]
fn abort_works_where_the_kernel_offers_it() {
    assert_eq!(register_abort_sections(), abort_sections());
}
