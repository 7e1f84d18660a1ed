//! Tests of `src/tables/percpu/fill.rs`.

use super::super::chunked::{Chunked, Reserved};
use super::super::library::{Handles, Typed};
use super::super::mutex_pool::MutexPools;
use super::super::variant::Pattern;
use super::*;
use sheaves_history::percpu::{V50, V52};
use sheaves_percpu::internal::dynamic::Allocator;

const FILTERS: usize = 4096;

fn work<C: PerCpuMemory>(pattern: Pattern, unit_kib: usize, slots: usize) -> Work {
    let mut fill = Fill::<C>::new(Variant::new(pattern, unit_kib, slots), FILTERS);
    assert!(fill.work.is_none());
    let values = fill.sample().unwrap();
    assert!(values.len() == 1 && values[0] > 0.0);
    let work = fill.work.clone().unwrap();
    fill.sample().unwrap();
    assert_eq!(fill.work, Some(work.clone()));
    work
}

#[test]
fn filters_leave_holes_that_only_the_old_allocator_tests_again() {
    let tested = |work: Work| work.chunks_tested().unwrap();
    // 4096 filters are 8 chunks; on average the old one tests the 4 full ones for each object.
    assert!(tested(work::<Chunked<V50<Reserved>>>(Pattern::Tc, 32, 0)) > 3.0);
    assert!(tested(work::<Chunked<V52<Reserved>>>(Pattern::Tc, 32, 0)) <= 1.01);
    let fixed = work::<Chunked<Allocator<Reserved>>>(Pattern::Tc, 32, 0);
    assert_eq!(fixed.unusable_bytes, Some(FILTERS as u64 * 12));
    assert!(tested(fixed) <= 1.01);
}

#[test]
fn memory_is_held_against_what_the_objects_need() {
    let fixed = work::<Chunked<Allocator<Reserved>>>(Pattern::TcPacked, 64, 2);
    assert_eq!(fixed.bytes_ideal, FILTERS as u64 * 44);
    let spare_pages = 5.0 * 4096.0;
    assert!(fixed.memory_ratio() <= 1.0 + spare_pages / fixed.bytes_ideal as f64);
    // Items of 16, 16 and 32 bytes.
    let pools = work::<MutexPools>(Pattern::TcPacked, 64, 2);
    assert!((pools.memory_ratio() - 64.0 / 44.0).abs() < 1e-9);
}

#[test]
fn the_library_needs_what_its_objects_need() {
    let ideal = FILTERS as u64 * 52;
    for work in [work::<Typed>(Pattern::Tc, 64, 0), work::<Handles>(Pattern::Tc, 64, 0)] {
        assert_eq!(work.bytes_ideal, ideal);
        // Other tests of this process have objects, too: they may take what it had before.
        assert!(work.bytes_in_use >= ideal - 64 * 1024, "{work:?}");
    }
}
