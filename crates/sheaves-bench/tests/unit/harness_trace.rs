//! Tests of `src/harness/trace.rs`.

use super::*;

#[test]
fn a_process_is_followed_while_it_grows() {
    let trace = Trace::start(std::process::id());
    std::thread::sleep(3 * EVERY);
    let grown = core::hint::black_box(vec![1_u8; 128 << 20]);
    std::thread::sleep(3 * EVERY);
    let points = trace_of(&trace.end()).unwrap();
    assert_eq!(points[0].1.to_bits(), 0);
    assert!(points.len() >= 4 && points.is_sorted_by(|a, b| a.0 < b.0), "{points:?}");
    assert!(points.last().unwrap().1 > 40e6, "{points:?}");
    drop(grown);
}

#[test]
fn a_process_that_is_gone_has_no_points() {
    assert!(trace_of(&Trace::start(u32::MAX).end()).is_none());
    assert!(trace_of(&json!({"chunks_tested": 2})).is_none());
}
