//! Tests of `src/tables/percpu/concurrent.rs`.

use super::super::chunked::{Chunked, Reserved};
use super::*;
use sheaves_percpu::internal::dynamic::Allocator;

#[test]
fn threads_keep_their_filters() {
    for pattern in [Pattern::Concurrent, Pattern::ConcurrentPair] {
        check(Variant::concurrent(pattern, 2));
    }
}

fn check(variant: Variant) {
    let mut concurrent = Concurrent::<Chunked<Allocator<Reserved>>>::new(variant).unwrap();
    concurrent.sample().unwrap();
    let mut all = Vec::new();
    for objects in &concurrent.shared.objects {
        let objects = objects.lock().unwrap();
        assert_eq!(objects.len(), LIVE * 4);
        all.extend(objects.iter().copied());
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), concurrent.count());
    assert!(concurrent.work.unwrap().chunks_tested().unwrap() >= 0.0);
}
