//! Tests of private items of `protocol`.

use super::counting::lowest_bits;

#[test]
fn lowest_bits_are_lowest() {
    assert_eq!(lowest_bits(0b1011_0110, 3), 0b1_0110);
    assert_eq!(lowest_bits(u64::MAX, 64), u64::MAX);
    assert_eq!(lowest_bits(u64::MAX, 0), 0);
}
