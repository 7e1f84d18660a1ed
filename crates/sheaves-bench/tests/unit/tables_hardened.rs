//! Tests of `src/tables/hardened/mod.rs`.

use super::contenders::environment;
use super::*;
use crate::harness::judge::tests::verdicts;

#[test]
fn the_child_is_a_hardened_process() {
    let cases = cases(&Options { sizes: vec![64], threads: 1, few: true, quick: true });
    let names: Vec<&str> = cases.iter().map(Case::name).collect();
    let loops = ["hardened/replace/1t/16-1016/5000", "hardened/replace/2t/16-1016/5000"];
    assert_eq!(names, [&["hardened/pair/64", "hardened/batch/64"], &loops[..]].concat());
    let modes = cases[0].contenders.iter().map(|contender| contender.mode.map(|mode| mode.name));
    assert_eq!(modes.flatten().collect::<Vec<_>>(), ["hardened"]);
    assert_eq!(environment(), [("SHEAVES_HARDEN", "1".to_owned())]);
}

#[test]
fn it_is_held_against_the_default_mode_and_the_peers() {
    let judged = |field: &[_]| verdicts(field, |row| compare(row, PAIR_MAX));
    let mut field = vec![("hardened", 1.2), ("malloc", 1.0), ("glibc", 0.1)];
    assert_eq!(judged(&field), ["malloc PASS"]);
    field.extend(PEERS.iter().map(|peer| (*peer, 1.1)));
    let expected = ["malloc PASS", "mimalloc-secure MISS"];
    assert_eq!(
        judged(&field)[..],
        expected[..if cfg!(feature = "peers-hardened") { 2 } else { 1 }]
    );
}
