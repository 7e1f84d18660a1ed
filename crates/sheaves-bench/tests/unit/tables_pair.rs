//! Tests of `src/tables/pair/mod.rs`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;

#[test]
fn bars_follow_the_size() {
    let malloc = |size| bars(size).malloc;
    assert_eq!([1024, 2048, 4096].map(malloc), [Some(1.0), None, Some(0.70)]);
    assert_eq!((bars(64).cache, bars(64).sized), (Some(0.75), Some(0.95)));
}

#[test]
fn a_full_run_has_eights_touched_objects_and_swept_caches() {
    let names = |sizes: &[usize], few| -> Vec<String> {
        let cases = cases(&Options { sizes: sizes.to_vec(), threads: 1, few, quick: few });
        cases.iter().map(|case| case.name().to_owned()).collect()
    };
    assert_eq!(names(&[8, 64], true), ["pair/8", "pair/64"]);
    let all = names(&[8, 64, 16384], false);
    for name in ["pair/eight/8", "pair/touched/64", "pair/touched/32768", "pair/cold/32m/64"] {
        assert!(all.iter().any(|known| known == name), "{name} is missing in {all:?}");
    }
    assert!(!all.contains(&"pair/touched/8".to_owned()));
    for work in [Work::Plain, Work::Eight, Work::Touched, Work::Cold(1 << 20)] {
        let values = Pairs { size: 64, work }.sampler(Glibc).unwrap().sample().unwrap();
        assert!(values.len() == 1 && values[0] > 0.0);
    }
}
