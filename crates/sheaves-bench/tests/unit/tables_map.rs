//! Tests of `src/tables/map/mod.rs`.

use super::*;

#[test]
fn rows_are_named_by_mix_threads_and_entries() {
    let options = Options { sizes: vec![64, 1000], threads: 2, few: false, quick: false };
    let cases = (TABLE.cases)(&options);
    assert_eq!(cases.len(), 16);
    for name in ["map/read-99/1t/64", "map/write-50/2t/1000", "map/grow/2t/64"] {
        assert!(cases.iter().any(|case| case.name() == name), "{name} is missing");
    }
}

#[test]
fn mixes_are_what_they_say() {
    let shares = MIXES.map(|mix| (mix.lookups * 100).div_ceil(1024));
    assert_eq!(shares, [100, 91, 50]);
    assert_eq!((1024 - MIXES[0].lookups, 1024 - MIXES[1].lookups), (10, 102));
}

#[test]
fn a_wrong_value_is_noticed() {
    fn wrong<M: Map>() -> usize {
        let map = M::with_capacity(0);
        (0..64).for_each(|index| map.insert(key_of(index), 1, &map.guard()));
        let mix = Mix { lookups: 1024, ..MIXES[0] };
        operate::<M, 1>(&map, mix, 64, &mut Random::new(1), 640)
    }
    assert_eq!([wrong::<Ours>(), wrong::<Dash>()], [640, 640]);
}
