//! `report`.

use core::fmt::Write as _;

use sheaves_sys::report::Line;

#[test]
fn surplus_text_is_dropped() {
    let mut line = Line::new();
    for _ in 0..100 {
        line.write_str("0123456789").unwrap();
    }
    assert_eq!(line.as_bytes().len(), 512);
}
