//! Tests of `src/tables/percpu/variant.rs`.

use crate::tables::percpu::variant::*;

#[test]
fn names_say_what_differs() {
    assert_eq!(Variant::new(Pattern::Tc, 64, 8).name(), "tc/64k-zeroed-8");
    assert_eq!(Variant::new(Pattern::TcPacked, 32, 0).name(), "tc-packed/32k");
    assert_eq!(Variant::concurrent(Pattern::ConcurrentPair, 3).name(), "concurrent-pair/3t");
}

#[test]
fn holes_are_counted_where_alignment_forces_them() {
    assert_eq!(Pattern::Tc.filter_bytes(), 64);
    assert_eq!(Pattern::TcPacked.filter_bytes(), 44);
    assert_eq!(Pattern::Control.filter_bytes(), 16);
    assert_eq!(Pattern::Concurrent.filter_bytes(), 80);
    assert_eq!(Pattern::Tc.objects_bytes(), 52);
    assert_eq!(Pattern::TcPacked.objects_bytes(), 44);
}
