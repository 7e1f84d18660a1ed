//! Tests of private items of `rows`.

use super::*;

#[test]
fn rows_fit_into_what_there_is() {
    for rows in [2, 3, 65, 257, 8193] {
        let bytes = wanted_row_bytes(rows, None);
        assert!(bytes.is_power_of_two() && (ROW_BYTES_MIN..=ROW_BYTES_MAX).contains(&bytes));
        let small = wanted_row_bytes(rows, Some(256 << 20));
        assert!(small == BLOCK_BYTES || small * rows <= 16 << 20, "{rows} rows of {small}");
    }
    assert_eq!(wanted_row_bytes(65, None), 1 << 30);
    assert_eq!(wanted_row_bytes(3, Some(1)), BLOCK_BYTES);
}

#[test]
fn bits_are_found_in_order() {
    let words = [1 | 1 << 63, 0, 1 << 5];
    let found = set_bits(|word| words[word], 192);
    let expected = [0, 63, 133];
    assert!(found.eq(expected));
}
