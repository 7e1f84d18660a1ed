//! Tests of `src/tables/slabtest/before_after.rs`.

use super::*;
use crate::harness::report::tests::{figure, shown};
use crate::harness::statistics::Summary;

#[test]
fn before_after_and_words() {
    let mut report = Report::new("slabtest");
    for size in [64, 128] {
        let workload = format!("{PAIR}/{size}");
        for (contender, median) in [(CACHE, 2.0), (LOCKED, 5.0)] {
            report.rows.push(figure(&workload, contender, median, shown(PAIR, size)));
        }
        let summary = Summary { samples: 1, median: 0.4, low: 0.4, high: 0.4 };
        let (of, to) = (CACHE.to_owned(), LOCKED.to_owned());
        report.ratios.push(Ratio { workload, of, to, summary });
    }
    let text = render(&report);
    for part in ["128", "5.00", "2.50x to 2.50x", "2.50 times as fast", "published"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(sentences(&Report::new("pair")), "");
}
