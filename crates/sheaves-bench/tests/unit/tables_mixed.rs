//! Tests of `src/tables/mixed/mod.rs`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;
use crate::harness::judge::tests::verdicts;

#[test]
fn rows_are_named_by_threads_share_and_blocks() {
    let cases = cases(&Options { sizes: vec![500, 5000], threads: 2, few: false, quick: false });
    let names: Vec<_> = cases.iter().flat_map(|case| &case.rows).map(|row| &row.name[..]).collect();
    for name in ["mixed/1t/500", "mixed-peak/2t-25/5000", "mixed-left/4t-50/500"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    assert!(
        cases
            .iter()
            .flat_map(|case| &case.contenders)
            .all(|contender| !contender.is_mode() || contender.family == "tcmalloc")
    );
}

#[test]
fn sizes_reach_from_8_to_16_000_and_half_of_them_are_small() {
    assert_eq!((SIZES[0], SIZES[4095]), (8, 16_000));
    assert!((350..365).contains(&SIZES[2048]), "{}", SIZES[2048]);
}

#[test]
fn blocks_are_freed_by_other_threads_and_memory_is_told() {
    for (threads, percent) in [(1, 0), (2, 50), (3, 25)] {
        let load = Load { threads, percent, live: 500, sizes: &SIZES };
        let mut sampler = load.sampler(Glibc).unwrap();
        for _ in 0..2 {
            let values = sampler.sample().unwrap();
            assert!(values[0] > 0.0 && values[1] >= values[2], "{values:?}");
        }
    }
}

#[test]
fn glibc_is_a_peer_in_time_alone() {
    let mut field = vec![("malloc", 3.0)];
    field.extend(allocators::UNSIZED.iter().map(|name| (*name, 2.8)));
    let judged = |measure| verdicts(&field, |row| compare(row, measure));
    if cfg!(feature = "peers") {
        assert_eq!([judged(""), judged("-peak")], [["glibc MISS"], ["mimalloc PASS"]]);
    } else {
        assert!(judged("").is_empty() && judged("-peak").is_empty());
    }
}
