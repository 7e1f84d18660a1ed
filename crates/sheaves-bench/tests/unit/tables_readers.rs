//! Tests of `src/tables/readers/mod.rs`.

#[path = "tables_readers_contenders.rs"]
mod contenders;

use super::*;
use crate::harness::judge::tests::verdicts;
use crate::harness::table::Part;

#[test]
fn rows_are_named_by_loads_and_threads() {
    let cases = |few| (TABLE.cases)(&Options { sizes: Vec::new(), threads: 2, few, quick: few });
    let rows: Vec<_> = cases(true).into_iter().flat_map(|case| case.rows).collect();
    for name in ["enter-leave/1t", "enter-leave/2t", "load-1/1t", "load-5-replace/2t"] {
        assert!(rows.iter().any(|row| row.name == name), "{name} is missing");
    }
    assert_eq!(cases(false).len(), 12);
}

#[test]
fn the_floor_frees_nothing() {
    let has_floor = |depth| {
        let contenders = contenders_of(Reads { depth, threads: 1 });
        contenders.iter().any(|contender| contender.family == "increments")
    };
    assert!(has_floor(0) && !has_floor(1));
}

#[test]
fn a_wrong_value_is_noticed() {
    assert!(check(SECTIONS as u64 * Node::VALUE).is_ok() && check(1).is_err());
}

/// Each contender is checked for what its readers see while the sample is taken.
#[test]
fn readers_never_see_what_was_freed() {
    for contender in contenders_of(Reads { depth: DEPTH_MAX, threads: 2 }) {
        let Part::Takes(make) = contender.part else { panic!("{} is left out", contender.family) };
        assert_eq!(make().unwrap().sample().unwrap().len(), 2, "{}", contender.family);
    }
}

#[test]
fn sections_are_held_against_others_and_the_clock() {
    let figures = [("rcu", 0.5), ("srcu", 1.7), ("increments", 1.2), ("crossbeam-epoch", 1.0)];
    let expected = ["crossbeam-epoch MISS", "increments MISS"];
    assert_eq!(verdicts(&figures, compare_sections), expected);
    assert_eq!(verdicts(&[("srcu", 1.5), ("increments", 1.0)], compare_sections), ["1 ns PASS"]);
}
