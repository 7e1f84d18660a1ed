//! Tests of `src/tables/counter/mod.rs`.

use super::*;
use crate::harness::judge::tests::verdicts;

#[test]
fn there_is_a_case_for_each_number_of_threads_and_one_for_the_sum() {
    let cases = (TABLE.cases)(&Options { sizes: Vec::new(), threads: 2, few: false, quick: false });
    let names: Vec<_> = cases.iter().map(Case::name).collect();
    let additions = ["counter/1t", "counter/2t", "counter/amount-1t", "counter/amount-2t"];
    assert_eq!(names[..4], additions);
    assert_eq!(names[4..], ["counter/sum/64"]);
}

#[test]
fn a_sum_of_too_few_slots_is_refused() {
    assert!(check_slots(usize::MAX).is_err());
}

#[test]
fn counters_are_held_against_the_atomic_and_the_clock() {
    let field = [("counter", 1.4), ("atomic", 15.0)];
    let judged = |threads| {
        let case = Additions { threads, is_one: true };
        verdicts(&field, |row| compare(row, case))
    };
    assert_eq!([judged(1), judged(2)], [["1 ns PASS"], ["atomic PASS"]]);
}
