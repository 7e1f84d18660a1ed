//! Tests of `src/tables/percpu/mod.rs`.

#[path = "tables_percpu_contenders.rs"]
mod contenders;

#[path = "tables_percpu_variant.rs"]
mod variant;

use super::*;
use crate::harness::judge::tests::verdicts;

fn names(few: bool) -> Vec<String> {
    let sizes = TABLE.sizes.as_ref().unwrap();
    let sizes = if few { sizes.quick } else { sizes.full }.to_vec();
    let cases = (TABLE.cases)(&Options { sizes, threads: 2, few, quick: few });
    cases.iter().map(|case| case.name().to_owned()).collect()
}

#[test]
fn rows_are_called_by_their_pattern() {
    let full = names(false);
    for name in [
        "tc/32k/1000",
        "tc/64k/1000000",
        "tc/256k-zeroed-64/1000000",
        "tc-packed/64k-zeroed-8/1000000",
        "control/32k/1000000",
        "churn/64k-zeroed-8/1000000",
        "concurrent/1t",
        "concurrent/2t",
        "concurrent-pair/2t",
    ] {
        assert!(full.iter().any(|known| known == name), "{name} is missing in {full:?}");
    }
    assert!(!full.iter().any(|name| name == "control/32k/1000"));
    let few = names(true);
    assert!(few.iter().any(|name| name == "tc/64k-zeroed-8/100000"));
    assert!(!few.iter().any(|name| name.contains("zeroed-64") || name.ends_with("1000000")));
}

#[test]
fn a_contender_is_left_out_for_a_reason() {
    let refused = |unit_kib, slots, filters, contender| {
        refusal(Variant::new(Pattern::Tc, unit_kib, slots), filters, contender).is_some()
    };
    assert!(!refused(64, 0, 1000, "FIXED+caches"));
    assert!(refused(32, 0, 1000, "FIXED+caches"));
    assert!(refused(32, 0, 1000, "FIXED+handles"));
    assert!(refused(64, 8, 1000, "FIXED+caches"));
    assert!(!refused(64, 8, 1000, "padded-box"));
    assert!(refused(64, 0, 1000, "padded-box"));
    assert!(refused(64, 64, 1_000_000, "padded-box"));
    assert!(!refused(64, 0, 1_000_000, "V50"));
    let concurrent = Variant::concurrent(Pattern::Concurrent, 2);
    assert_eq!(refusal(concurrent, 0, "FIXED+caches"), None);
}

#[test]
fn generations_are_held_against_the_first() {
    let field = [("V50", 100.0), ("V52", 60.0), ("FIXED", 40.0)];
    let judged = |slots, filters| {
        let variant = Variant::new(Pattern::Tc, 64, slots);
        verdicts(&field, |row| compare(row, variant, filters))
    };
    assert_eq!(judged(8, 100_000), ["V50 MISS", "V50 PASS"]);
    assert!(judged(0, 100_000).is_empty() && judged(8, 1000).is_empty());
}
