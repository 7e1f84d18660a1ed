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

/// Set in a process that runs one test.
const ALONE: &str = "SHEAVES_TEST_ALONE";

/// In a process of its own: what other tests free meanwhile would be missing from the peak.
#[test]
fn a_peak_has_what_was_in_use() {
    if std::env::var_os(ALONE).is_none() {
        let name = "tables::footprint::small::tests::a_peak_has_what_was_in_use";
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        let output = test.args(["--exact", name]).env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let small = Small::Blocks { threads: 2, bytes: 8 * MIB, size_max: 512 };
    let mut sampler = small.sampler(Glibc).unwrap();
    let values = sampler.sample().unwrap();
    assert!(values.len() == 1 && values[0] >= (15 * MIB) as f64, "{values:?}");
}
