//! Tests of `src/tables/percpu/churn.rs`.

use super::super::chunked::{Chunked, Reserved};
use super::super::variant::Pattern;
use super::*;
use sheaves_percpu::internal::dynamic::Allocator;

const FILTERS: usize = 2000;

#[test]
fn each_round_replaces_a_tenth() {
    let variant = Variant::new(Pattern::Churn, 32, 2);
    let mut churn = Churn::<Chunked<Allocator<Reserved>>>::new(variant, FILTERS).unwrap();
    assert_eq!(churn.choose(), FILTERS / 10);
    let mut chosen = churn.order.clone();
    chosen.sort_unstable();
    assert!(chosen.iter().enumerate().all(|(place, filter)| place == *filter as usize));

    churn.sample().unwrap();
    let work = churn.work.clone().unwrap();
    assert!(work.memory_ratio() < 1.3, "{work:?}");
    let mut objects: Vec<usize> = churn.objects.clone();
    objects.sort_unstable();
    objects.dedup();
    assert_eq!(objects.len(), FILTERS * 3);
}
