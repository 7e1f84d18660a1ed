//! Tests of `src/complete.rs`.

use super::*;

#[test]
fn names_that_a_shell_reads_in_another_way_are_no_words() {
    for name in ["busy", "mariadbd", "g++", "kworker@1", "a.out-2", "_x"] {
        assert!(is_word(name), "{name}");
    }
    let others =
        ["$(/tmp/x)", "`x`", "a name", "a;x", "a|x", "~x", "*", "a'", "-x", "a\\", "\u{e9}"];
    for name in others {
        assert!(!is_word(name), "{name}");
    }
}
