//! Tests of private items of `records/profile/sites`.

extern crate std;

use std::vec::Vec;

use super::*;

fn source() -> Source {
    Source { kind: Kind::Malloc, cache: 5, is_deferral: false, name: Name::new("name") }
}

#[test]
fn equal_places_are_one_site() {
    let mut sites = Sites::new();
    assert!(sites.map());
    let mut find = |source, addresses: &[usize]| sites.find(source, addresses).unwrap();
    let first = find(source(), &[1, 2, 3]);
    assert_eq!(find(source(), &[1, 2, 3]), first);
    let others = [
        find(source(), &[1, 2]),
        find(source(), &[3, 2, 1]),
        find(source(), &[]),
        find(Source { cache: 6, ..source() }, &[1, 2, 3]),
        find(
            Source { name: Name::new("of the next cache with this number"), ..source() },
            &[1, 2, 3],
        ),
        find(Source { kind: Kind::Cache, ..source() }, &[1, 2, 3]),
        find(Source { is_deferral: true, ..source() }, &[1, 2, 3]),
    ];
    assert!(!others.contains(&first));
    let (mut index, mut seen) = (0, Vec::new());
    while let Some(listed) = sites.next(index) {
        seen.push(listed.addresses().to_vec());
        index = listed.index + 1;
    }
    assert_eq!(seen.len(), 8);
    assert_eq!(seen.iter().filter(|addresses| **addresses == [1, 2, 3]).count(), 5);
    sites.clear();
    assert!(sites.next(0).is_none());
}

#[test]
fn a_full_table_takes_no_more() {
    let mut sites = Sites::new();
    assert!(sites.map());
    let made = (0..2 * ENTRIES).map_while(|index| sites.find(source(), &[index])).count();
    assert_eq!(made, ENTRIES / 4 * 3);
    assert!(sites.find(source(), &[3]).is_some());
    // Long stacks use up the room for addresses.
    sites.clear();
    let long = |first| core::array::from_fn::<usize, FRAMES_MAX, _>(|index| first + index);
    let made = (0..2 * ENTRIES).map_while(|index| sites.find(source(), &long(index * 100))).count();
    assert_eq!(made, WORDS / FRAMES_MAX);
}
