//! Tests of `src/output.rs`.

use proptest::prelude::*;

use super::{is_plain, line, name, plain};

#[test]
fn what_a_terminal_obeys_is_not_printed() {
    assert_eq!(plain("\x1b[31m\x07evil\n\ttext\u{9b}2J"), "?[31m?evil\n\ttext?2J");
    assert_eq!(plain("right \u{202e}to left"), "right ?to left");
    assert_eq!(plain("é 日本"), "é 日本");
    assert_eq!(name(b"two\nlines"), "two?lines");
    // The kernel cuts names inside characters.
    assert_eq!(name(&"éé".as_bytes()[..3]), "é\u{fffd}");
}

proptest! {
    #[test]
    fn names_of_any_bytes_are_short_lines(bytes: Vec<u8>) {
        let shown = name(&bytes);
        prop_assert!(shown.chars().count() <= 128 && shown.chars().all(is_plain));
    }

    #[test]
    fn lines_are_plain(text: String, most in 0..64_usize) {
        let shown = line(&text, most);
        prop_assert!(shown.chars().count() <= most && shown.chars().all(is_plain));
    }
}
