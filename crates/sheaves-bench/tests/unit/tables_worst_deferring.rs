//! Tests of `src/tables/worst/deferring.rs`.

use super::*;
use crate::harness::Failure;
use crate::tables::worst::heap::{Call, Course};

fn check<A: Allocator>(allocator: A) -> Result<(), Failure> {
    let calls = &[Call::Malloc, Call::Free];
    let course = Course { bytes: 4 << 20, replaced: 10_000, cleared: 0, resized: 0, calls };
    let mut sampler = course.sampler(allocator)?;
    let values = [sampler.sample()?, sampler.sample()?].concat();
    assert!(values.iter().all(|figure| figure.is_nan() || *figure > 0.0), "{values:?}");
    Ok(())
}

#[test]
fn every_contender_takes_blocks_back() -> Result<(), Failure> {
    check(FreeRcu)?;
    check(Crossbeam::<Glibc>::default())?;
    check(Seize::default())?;
    check(Haphazard)?;
    #[cfg(feature = "peers")]
    check(liburcu::CallRcu::<Glibc>::default())?;
    Ok(())
}

#[test]
fn peers_are_the_contenders_that_are_not_ours() {
    let calls = &[Call::Free];
    let course = Course { bytes: 1, replaced: 0, cleared: 0, resized: 0, calls };
    let families: Vec<_> = contenders(course).iter().map(|contender| contender.family).collect();
    assert_eq!(families[0], "malloc");
    assert_eq!(families[1..].len(), PEERS.len());
    assert!(PEERS.iter().all(|peer| families.contains(peer)), "{families:?}");
}
