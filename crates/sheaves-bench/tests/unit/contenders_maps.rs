//! Tests of `src/contenders/maps.rs`.

use super::*;

fn check<M: Map>() {
    let map = M::with_capacity(0);
    let guard = map.guard();
    for key in 0..1000 {
        map.insert(key, value_of(key), &guard);
    }
    assert!(map.remove(7, &guard) && !map.remove(7, &guard));
    assert_eq!((map.get(7, &guard), map.get(8, &guard)), (None, Some(value_of(8))));
    assert_eq!(map.len(), 999);
    let mut count = 0;
    map.each(&guard, || count += 1);
    drop(guard);
    map.clear();
    assert_eq!((count, map.len()), (999, 0));
}

#[test]
fn every_contender_is_a_map() {
    check::<Ours>();
    check::<Papaya>();
    check::<Dash>();
}
