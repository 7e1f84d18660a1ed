//! Tests of `src/tables/map/`.

use std::collections::HashSet;

use super::*;
use crate::contenders::maps::{Map, Ours, Papaya, Work as _};
use crate::harness::Random;
use crate::harness::judge::tests::verdicts;
use course::tests::Broken;
use mixes::{Mix, key_of, operate};

fn names(sizes: &[usize], few: bool) -> Vec<String> {
    let options = Options { sizes: sizes.to_vec(), threads: 2, few, quick: few };
    let cases = (TABLE.cases)(&options);
    cases.iter().flat_map(|case| &case.rows).map(|row| row.name.clone()).collect()
}

#[test]
fn rows_are_named_by_keys_hasher_work_threads_and_entries() {
    let names = names(&[64, 100_000], false);
    for name in [
        "map/read-99/1t/64",
        "map/write-50/2t/100000",
        "map/grow/2t/64",
        "map/string/iterate/2t/64",
        "map/siphash/remove/1t/64",
        "map/string-siphash/clear/1t/64",
        "map/memory/1t/100000",
        "map/fx/shift-20/1t/64",
        "map/identity/address/1t/64",
    ] {
        assert!(names.iter().any(|known| known == name), "{name} is missing in {names:?}");
    }
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    assert_eq!(names.len(), 4 * (2 * (6 + 7) + 1) + 2 * 6);
}

#[test]
fn a_first_look_leaves_variants_out() {
    let names = names(&[64], true);
    assert_eq!((names.len(), names.iter().any(|name| name.contains("string"))), (13, false));
}

#[test]
fn the_default_hasher_is_compared_where_peers_have_theirs() {
    let cases = (TABLE.cases)(&Options { sizes: vec![64], threads: 1, few: false, quick: false });
    for case in cases {
        let contenders: Vec<_> = case.contenders.iter().map(|known| known.family).collect();
        assert_eq!(contenders.contains(&"rcu-map-default"), case.name().contains("siphash"));
        let has_few_bits = case.name().contains("/fx/") || case.name().contains("/identity/");
        let peers = if has_few_bits { &["dashmap"][..] } else { &PEERS };
        assert!(peers.iter().all(|peer| contenders.contains(peer)), "{contenders:?}");
    }
}

#[test]
fn ours_is_held_against_the_best_of_all_peers() {
    let field = |ours| {
        let peers = [("papaya", 4.0), ("dashmap", 2.0), ("scc", 3.0), ("rwlock", 9.0)];
        [[("rcu-map", ours)].as_slice(), &peers].concat()
    };
    let judged =
        |field: &[_], threads| verdicts(field, |row| compare(row, bar([1.0, 1.1], threads), 0.9));
    assert_eq!(judged(&field(2.1), 1), ["dashmap PASS"]);
    assert_eq!(judged(&field(2.1), 2), ["dashmap MISS"]);
    assert_eq!(judged(&field(1.9), 2), ["dashmap PASS"]);
    assert!(judged(&field(1.9)[..4], 2).is_empty());
    let with_words = |words| [field(1.9).as_slice(), &[(WORDS, words)]].concat();
    assert_eq!(judged(&with_words(1.7), 2), ["dashmap PASS", "dashmap PASS"]);
    assert_eq!(judged(&with_words(1.9), 2), ["dashmap PASS", "dashmap MISS"]);
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
    assert_eq!([wrong::<Ours>(), wrong::<Papaya<String>>()], [640, 640]);
}

#[test]
fn large_maps_are_not_tried_with_hashes_of_few_bits() {
    assert_eq!((hashes::cases(10_000).count(), hashes::cases(10_001).count()), (12, 0));
}

#[test]
fn a_map_that_loses_a_key_of_few_bits_is_noticed() {
    let work = hashes::Keys { shift: Some(20), entries: 64 };
    let mut lossy = work.sampler::<Broken<1, 0>>().unwrap();
    let failure = lossy.sample().unwrap_err();
    assert!(failure.message.contains("wrong value"), "{failure:?}");
    assert!(work.sampler::<Broken<0, 0>>().unwrap().sample().is_ok());
}

#[test]
fn every_contender_of_every_case_takes_samples() {
    use crate::harness::Part;
    let cases = (TABLE.cases)(&Options { sizes: vec![64], threads: 2, few: true, quick: true });
    for case in cases.into_iter().chain(hashes::cases(64)) {
        for contender in &case.contenders {
            let Part::Takes(make) = &contender.part else { panic!("none is left out") };
            let figures = make().unwrap().sample().unwrap();
            assert_eq!(figures.len(), case.rows.len(), "{}", case.name());
            assert!(figures.iter().all(|figure| *figure > 0.0), "{}: {figures:?}", case.name());
        }
    }
}
