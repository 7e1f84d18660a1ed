//! Tests of `src/harness/text.rs`.

use super::*;

#[test]
fn numbers_keep_three_digits() {
    assert_eq!(number(1.234), "1.23");
    assert_eq!(number(12.34), "12.3");
    assert_eq!(number(1234.5), "1234");
    assert_eq!([ratio(0.0123), ratio(1.04), ratio(1.23)], ["0.012", "1.040", "1.23"]);
}
