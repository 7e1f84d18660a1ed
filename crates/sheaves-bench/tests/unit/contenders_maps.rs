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
    let mut values = Vec::new();
    map.each(&guard, |value| values.push(value));
    values.sort_unstable();
    let mut there: Vec<u64> = (0..1000).filter(|key| *key != 7).map(value_of).collect();
    there.sort_unstable();
    assert_eq!(values, there);
    drop(guard);
    map.clear();
    assert_eq!(map.len(), 0);
}

fn check_all<K: Key, S: Seed>() {
    check::<Ours<K, S>>();
    check::<Papaya<K, S>>();
    check::<Dash<K, S>>();
    check::<Scc<K, S>>();
    check::<Locked<K, S>>();
}

#[test]
fn every_contender_is_a_map() {
    check_all::<u64, FixedState>();
    check::<Words>();
    check_all::<String, RandomState>();
}

#[test]
fn strings_are_sixteen_letters_of_their_number() {
    let text = String::of(0xF0);
    assert_eq!((text.as_str(), text.len()), ("apaaaaaaaaaaaaaa", 16));
    assert!(String::seek(0xF0, |sought| *sought == text));
}

#[test]
fn insertion_replaces_the_value() {
    fn check<M: Map>() {
        let map = M::with_capacity(8);
        let guard = map.guard();
        map.insert(1, 2, &guard);
        map.insert(1, 3, &guard);
        assert_eq!((map.get(1, &guard), map.len()), (Some(3), 1));
    }
    check::<Ours>();
    check::<Words>();
    check::<Scc>();
}
