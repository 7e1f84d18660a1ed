//! Tests of `src/prof/text.rs`.

use super::bytes;

#[test]
fn bytes_have_a_unit() {
    assert_eq!(bytes(1023), "1023 B");
    assert_eq!(bytes(524_288), "512.0 KiB");
    assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
}
