//! Tests of `src/tables/bulk/mod.rs`.

#[path = "tables_bulk_contenders.rs"]
mod contenders;

use super::*;
use crate::harness::judge::tests::verdicts;
use crate::harness::table::Part;

#[test]
fn looks_weigh_as_published() {
    let mut footprint = Footprint::default();
    for bytes in [8.0, 16.0, 24.0, 40.0] {
        footprint.add(bytes);
    }
    // An eighth of 8 and of 16, a quarter of 24, half of 40.
    assert!((footprint.grown() + 8.0 - 29.0).abs() < 1e-9);
    assert!(Footprint::default().grown() < 1e-9);
}

#[test]
fn resident_memory_grows_with_use() {
    let before = resident_bytes();
    let memory = core::hint::black_box(vec![1_u8; 64 << 20]);
    assert!(resident_bytes() > before + (32 << 20));
    drop(memory);
}

#[test]
fn a_sample_ends_with_all_free() {
    for contender in contenders_of(2) {
        let Part::Takes(make) = contender.part else { panic!("none is left out") };
        let values = make().unwrap().sample().unwrap();
        assert!(values[0] > 0.0 && values[5] > 0.0, "{values:?}");
    }
    let _lock = deferred_bytes::lock();
    assert_eq!(deferred_bytes::outstanding(), 0);
}

#[test]
fn bulk_is_held_against_glibc_where_our_free_is_too_cheap() {
    let judged = |measure, field: &[_]| verdicts(field, |row| compare(row, measure));
    let field = |one| [("sheaves", 3.0), ("per-object", one), ("per-object+glibc", 9.0)];
    assert_eq!(judged("", &field(7.0)), ["per-object PASS"]);
    assert_eq!(judged("", &field(5.0)), ["per-object MISS", "per-object+glibc PASS"]);
    let footprint = [("sheaves", 60.0), ("per-object", 100.0)];
    assert_eq!(judged("-resident", &footprint), ["per-object PASS"]);
}
