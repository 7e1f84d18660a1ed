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
    let mask = mask().unwrap();
    assert!(listed.is_none_or(|count| mask.used <= count && count <= mask.bits), "{listed:?}");
    assert_eq!((cpu_ids_end(), mask.bits % 8), (mask.bits, 0));
}

#[test]
fn a_list_is_believed_as_far_as_the_thread_may_use_no_other_cpu() {
    let mask = |used| Some(Mask { bits: 128, used });
    assert_eq!(possible(Some(4), mask(4)), 4);
    assert_eq!(possible(Some(4), mask(2)), 4);
    assert_eq!(possible(Some(4), mask(5)), 128);
    assert_eq!(possible(Some(4), None), 4);
    assert_eq!(possible(None, mask(5)), 128);
    assert_eq!(possible(None, None), CPUS_MAX);
}

#[test]
fn a_mask_ends_with_its_highest_cpu() {
    let before = Affinity::current().unwrap();
    for cpu_id in before.cpu_ids() {
        assert!(Affinity::only(cpu_id).unwrap().bind());
        assert_eq!(mask().unwrap().used, cpu_id + 1);
    }
    assert!(before.bind());
}

#[test]
fn affinity_round_trip() {
    let before = Affinity::current().unwrap();
    assert!(Affinity::only(0).unwrap().bind());
    assert!(before.bind());
}
