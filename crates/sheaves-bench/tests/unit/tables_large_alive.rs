//! Tests of `src/tables/large/alive.rs`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;
use crate::harness::judge::tests::verdicts;

const SMALL: Alive = Alive {
    threads: 1,
    live: 5,
    sizes_mib: [1, 2],
    written: Written::Pages,
    time: Duration::from_millis(5),
    idle: Duration::ZERO,
};

#[test]
fn rows_are_named_by_threads_sizes_and_what_is_written() {
    let names = |is_quick| {
        let cases = cases(is_quick);
        cases.iter().flat_map(|case| &case.rows).map(|row| row.name.clone()).collect::<Vec<_>>()
    };
    let all = names(false);
    assert_eq!(all.len(), 2 * 2 * 3 * MEASURES.len());
    for name in [
        "large/alive-1t/5-25-untouched",
        "large-faults/alive-2t/1-8-touched",
        "large-resident/alive-1t/1-8-whole",
    ] {
        assert!(all.iter().any(|known| known == name), "{name} is missing in {all:?}");
    }
    let few = names(true);
    assert_eq!(few.len(), 4 * MEASURES.len());
    assert!(few.iter().all(|name| name.ends_with("-touched")), "{few:?}");
}

#[test]
fn sizes_are_between_their_bounds() {
    let mut random = Random::new(1);
    let sizes: Vec<_> = (0..1000).map(|_| size([5, 25], &mut random)).collect();
    assert!(sizes.iter().all(|size| (5 * MIB..=25 * MIB).contains(size)));
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    assert!((14 * MIB..16 * MIB).contains(&mean), "{mean}");
}

#[test]
fn all_is_told_and_all_blocks_are_freed() {
    for (threads, written) in [(1, Written::Nothing), (1, Written::Pages), (2, Written::All)] {
        let mut sampler = Alive { threads, written, ..SMALL }.sampler(Glibc).unwrap();
        for _ in 0..2 {
            let values = sampler.sample().unwrap();
            assert!(values.len() == 3 && values[0] > 0.0 && values[1] >= 0.0, "{values:?}");
        }
    }
}

/// glibc maps each block of more than 32 MiB anew.
#[test]
fn pages_that_are_touched_are_counted_as_faults() {
    let before = minor_faults();
    let block = Glibc.alloc(64 * MIB);
    write_pages(block, 0..64 * MIB);
    // SAFETY: allocated above and freed once.
    unsafe { Glibc.free(block, 0) };
    // One fault for each page, or for each huge page.
    assert!(minor_faults() - before >= 32);
}

#[test]
fn the_mean_is_over_all_threads() {
    let spent = [(Duration::from_micros(6), 2), (Duration::from_micros(6), 4)];
    assert_eq!(per_replacement(spent.into_iter(), 12), (2000.0, 2.0));
}

#[test]
fn time_is_held_against_peers_and_memory_against_a_limit() {
    let mut field = vec![("malloc", 60.0 * MIB as f64)];
    field.extend(allocators::UNSIZED.iter().map(|name| (*name, 50.0 * MIB as f64)));
    let judged = |measure, alive| verdicts(&field, |row| compare(row, measure, alive));
    assert_eq!(judged("-resident", SMALL), ["1 MiB PASS"]);
    assert_eq!(judged("-resident", Alive { threads: 2, ..SMALL }), ["1 MiB MISS"]);
    assert!(judged("-faults", SMALL).is_empty());
    assert!(judged("", Alive { written: Written::Nothing, ..SMALL }).is_empty());
    if cfg!(feature = "peers") {
        assert_eq!(judged("", SMALL), ["glibc MISS"]);
    }
}
