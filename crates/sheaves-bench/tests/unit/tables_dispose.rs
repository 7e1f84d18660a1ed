//! Tests of `src/tables/dispose/mod.rs`.

#[path = "contenders_deferral.rs"]
mod contenders;

use super::*;
use crate::harness::judge::tests::verdicts;
use crate::harness::table::Options;

#[test]
fn cases_are_named_by_threads() {
    let cases = (TABLE.cases)(&Options { sizes: Vec::new(), threads: 2, few: false, quick: false });
    let names: Vec<_> = cases.iter().map(Case::name).collect();
    assert_eq!(names, ["dispose/1t", "dispose/2t", "dispose/4t", "dispose/request"]);
    let has = |load, name| contenders_of(load).iter().any(|known| known.family == name);
    assert!(has(Load::Request, "without") && !has(Load::Threads(1), "without"));
}

#[test]
fn every_packet_is_read() {
    let mut packets = Packets::new();
    let first = packets.receive();
    let others: Vec<u64> = (1..PACKETS).map(|_| packets.receive()).collect();
    assert!(others.iter().all(|sum| *sum != first));
    assert_eq!(packets.receive(), first);
}

#[test]
fn a_sample_is_many_objects_and_ends_with_all_free() {
    let check = |sampler: Result<Sampler, Failure>, counts: bool| {
        let values = sampler.unwrap().sample().unwrap();
        assert!(values[0] > 0.0 && values[1] > 0.0, "{values:?}");
        // A grace period happens now and then.
        assert!(!counts || values[3] > 0.0, "{values:?}");
    };
    check(
        Load::Threads(2)
            .sampler(library::RcuSheaves { cache: make_cache("test", OBJECT_BYTES).unwrap() }),
        true,
    );
    check(
        Load::Threads(2).sampler(library::Calls { cache: library::cache_of_calls().unwrap() }),
        true,
    );
    check(Load::Threads(1).sampler(crates::Seize::<Glibc>::default()), false);
    let _lock = deferred_bytes::lock();
    assert_eq!(deferred_bytes::outstanding(), 0);
}

fn judged(load: Load, field: &[(&'static str, f64)]) -> Vec<String> {
    verdicts(field, |row| compare(row, load))
}

#[test]
fn one_thread_is_held_against_the_floor_and_four_against_the_list() {
    let field = [("sheaves", 3.0), ("floor", 1.6), ("before", 200.0)];
    assert_eq!(judged(Load::Threads(1), &field), ["floor PASS", "before PASS"]);
    assert!(judged(Load::Threads(2), &field).is_empty());
    assert_eq!(judged(Load::Threads(4), &field), ["before MISS"]);
    let request = [("sheaves", 1025.0), ("without", 1000.0)];
    assert_eq!(judged(Load::Request, &request), ["without MISS"]);
}

#[cfg(feature = "peers")]
#[test]
fn the_better_way_of_liburcu_counts() {
    let mut field = vec![("sheaves", 4.0)];
    field.extend(LIBURCU.into_iter().zip([100.0, 90.0, 40.0, 30.0]));
    assert_eq!(judged(Load::Threads(2), &field), ["liburcu-defer_rcu+mimalloc MISS"]);
    // Against some of them a bar would say little.
    assert!(judged(Load::Threads(2), &field[..3]).is_empty());
}
