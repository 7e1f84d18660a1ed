//! Tests of `src/tables/worst/maps.rs`.

use super::*;
use crate::contenders::maps::{Dash, Locked, Ours, Papaya, Scc};
use crate::harness::judge::tests::verdicts;

fn check<M: Map>() {
    let keys: Vec<u64> = (0..1000).collect();
    let counts = run::<M>(&keys).unwrap().map(|times| times.count());
    assert_eq!(counts, [1000, 1000, 500, 1]);
}

#[test]
fn every_call_of_every_map_is_timed() {
    check::<Ours>();
    check::<Papaya>();
    check::<Dash>();
    check::<Scc>();
    check::<Locked>();
}

#[test]
fn an_insertion_is_held_against_a_millisecond() {
    let judged =
        |call, nanoseconds| verdicts(&[("rcu-map", nanoseconds)], |row| compare(row, call, ""));
    assert_eq!(judged("map-insert", 0.9e6), ["1 ms PASS"]);
    assert_eq!(judged("map-insert", 1.1e6), ["1 ms MISS"]);
    assert!(judged("map-next", 1.1e6).is_empty());
}
