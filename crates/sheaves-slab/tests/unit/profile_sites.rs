extern crate std;

use std::vec::Vec;

use super::*;

const KEY: Key = Key { kind: Kind::Malloc, cache: 5, is_deferral: false };

#[test]
fn equal_places_are_one_site() {
    let mut sites = Sites::new();
    assert!(sites.map());
    let name = Name::new("name");
    let mut find = |key, addresses: &[usize]| sites.find(key, name, addresses).unwrap();
    let first = find(KEY, &[1, 2, 3]);
    assert_eq!(find(KEY, &[1, 2, 3]), first);
    let others = [
        find(KEY, &[1, 2]),
        find(KEY, &[3, 2, 1]),
        find(KEY, &[]),
        find(Key { cache: 6, ..KEY }, &[1, 2, 3]),
        find(Key { kind: Kind::Cache, ..KEY }, &[1, 2, 3]),
        find(Key { is_deferral: true, ..KEY }, &[1, 2, 3]),
    ];
    assert!(!others.contains(&first));
    let (mut addresses, mut index, mut seen) = ([0; FRAMES_MAX], 0, Vec::new());
    while let Some((found, site)) = sites.next(index, &mut addresses) {
        seen.push(addresses[..site.addresses()].to_vec());
        index = found + 1;
    }
    assert_eq!(seen.len(), 7);
    assert_eq!(seen.iter().filter(|addresses| **addresses == [1, 2, 3]).count(), 4);
    sites.clear();
    assert!(sites.next(0, &mut addresses).is_none());
}

#[test]
fn a_full_table_takes_no_more() {
    let mut sites = Sites::new();
    assert!(sites.map());
    let name = Name::new("name");
    let made = (0..2 * ENTRIES).map_while(|index| sites.find(KEY, name, &[index])).count();
    assert_eq!(made, ENTRIES / 4 * 3);
    assert!(sites.find(KEY, name, &[3]).is_some());
    // Long stacks use up the room for addresses.
    sites.clear();
    let long = |first| core::array::from_fn::<usize, FRAMES_MAX, _>(|index| first + index);
    let made =
        (0..2 * ENTRIES).map_while(|index| sites.find(KEY, name, &long(index * 100))).count();
    assert_eq!(made, WORDS / FRAMES_MAX);
}
