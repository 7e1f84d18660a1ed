//! Tests of `src/tables/footprint/small.rs`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;
use crate::tables::footprint::blocks::MIB;

#[test]
fn lists_are_replaced_and_all_is_freed() {
    let mut lists = Lists::new();
    (0..100_000).for_each(|_| lists.replace(&Glibc));
    let full = lists.heads.iter().filter(|head| !head.is_null()).count();
    // One in eight is empty.
    assert!((LISTS * 3 / 4..LISTS).contains(&full), "{full} of {LISTS} lists have nodes");
    lists.clear(&Glibc);
    assert!(lists.heads.iter().all(|head| head.is_null()));
}

#[test]
fn a_peak_has_what_was_in_use() {
    let small = Small::Blocks { threads: 2, bytes: 8 * MIB, size_max: 512 };
    let mut sampler = small.sampler(Glibc).unwrap();
    let values = sampler.sample().unwrap();
    assert!(values.len() == 1 && values[0] >= (15 * MIB) as f64, "{values:?}");
}
