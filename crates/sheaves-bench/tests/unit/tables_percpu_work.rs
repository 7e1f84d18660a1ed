//! Tests of `src/tables/percpu/work.rs`.

use super::super::variant::Pattern;
use super::*;
use crate::harness::report::tests::{figure, shown};

fn example(chunks_tested: f64) -> Work {
    let chunks = ChunkWork {
        allocations: 0,
        chunks_tested,
        words_read: 2.0,
        block_refreshes: 0.5,
        blocks_visited: 4.0,
        relegations: 3,
        chunks_live: 2,
        populated_pages: 16,
        metadata_bytes: 8192,
    };
    Work {
        chunks: Some(chunks),
        unusable_bytes: Some(12_000),
        bytes_in_use: 65_536,
        bytes_ideal: 64_000,
    }
}

#[test]
fn what_is_not_counted_is_left_out() {
    let work = example(1.0);
    let text = serde_json::to_string(&work).unwrap();
    assert!(text.contains("\"chunks_tested\":1.0") && text.contains("\"words_read\":2.0"));
    assert_eq!(serde_json::from_str::<Work>(&text).unwrap(), work);
    let none = Work { chunks: None, unusable_bytes: None, ..work };
    let text = serde_json::to_string(&none).unwrap();
    assert_eq!(text, r#"{"bytes_in_use":65536,"bytes_ideal":64000}"#);
    assert_eq!(serde_json::from_str::<Work>(&text).unwrap(), none);
    assert!((none.memory_ratio() - 1.024).abs() < 1e-9);
}

#[test]
fn what_is_the_same_with_zeroing_is_told_once() {
    let mut report = Report::new("percpu");
    let plain = Variant::new(Pattern::Tc, 32, 0);
    let zeroed = Variant { slots: 8, ..plain };
    for (variant, contender) in [(plain, "V50"), (zeroed, "V50"), (zeroed, "FIXED")] {
        let mut row = figure("row", contender, 40.0, shown(&variant.name(), 1000));
        row.work = Some(example(15.96).to_json());
        report.rows.push(row);
    }
    let text = tables(&report, &[plain, zeroed]);
    for part in ["tc/32k: what was done\n", "15.960", "12000", "1.024", "; others as with tc/32k"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(text.matches("V50").count(), 1, "{text}");
}
