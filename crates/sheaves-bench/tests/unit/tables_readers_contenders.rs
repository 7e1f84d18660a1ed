//! Tests of `src/tables/readers/contenders.rs`.

use crate::tables::readers::contenders::*;

#[test]
fn a_chain_is_as_long_as_the_loads_need() {
    assert_eq!(Node::chain(1).follow::<1>(), Node::VALUE);
    assert_eq!(Node::chain(4).follow::<4>(), Node::VALUE);
    assert_eq!(Node::chain(4).follow::<3>(), 0);
}
