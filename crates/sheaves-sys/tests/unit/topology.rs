//! Tests of private items of `topology`.

use super::*;

#[test]
fn highest_id_of_lists() {
    assert_eq!(highest_id(b"0-3\n"), Some(3));
    assert_eq!(highest_id(b"0\n"), Some(0));
    assert_eq!(highest_id(b"0-3,8-11\n"), Some(11));
    assert_eq!(highest_id(b"0,7"), Some(7));
    assert_eq!(highest_id(b"what"), None);
}

#[test]
fn affinity_mask_replaces_a_missing_cpu_list() {
    assert_eq!(listed_cpus(c"/nowhere/at/all"), None);
    let listed = listed_cpus(c"/sys/devices/system/cpu/possible");
    let bits = mask_bits().unwrap();
    assert!(listed.is_none_or(|count| count <= bits), "{listed:?} of {bits}");
}

#[test]
fn affinity_round_trip() {
    let before = Affinity::current().unwrap();
    assert!(Affinity::only(0).unwrap().bind());
    assert!(before.bind());
}
