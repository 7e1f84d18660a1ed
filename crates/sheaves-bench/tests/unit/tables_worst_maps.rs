//! Tests of `src/tables/worst/maps.rs`.

use super::*;

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
}
