//! Tests of `src/rooms.rs`.

use super::*;

fn file(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn a_room_has_a_line() {
    let frame = |table: &str| format!("# A\n\n{BEGIN}{table}{END}\nEnd.\n");
    let files = [
        file(DOCUMENT, &frame("old\n")),
        file("crates/sheaves-sys/src/lib.rs", "//! All.\n"),
        file("crates/sheaves-sys/src/map.rs", "//! Maps\n//! it, cf. `mmap`. And more.\n"),
        file("crates/sheaves-sys/src/a/b/mod.rs", "//! Inside.\n"),
        file("crates/sheaves-sys/src/a/c.rs", "//! Not a room.\n"),
        file("crates/sheaves-sys/tests/d.rs", "//! A test.\n"),
        file("crates/sheaves-bench/src/e.rs", "//! A tool.\n"),
    ];
    let rows = "| `a/b/` | Inside. |\n| `map.rs` | Maps it, cf. `mmap`. |\n";
    let table = format!("\n| `crates/sheaves-sys/src/` | |\n|---|---|\n{rows}\n");
    assert_eq!(document(&files), Some(frame(&table)));
    assert_eq!(document(&files[1..]), None);
}

#[test]
fn a_sentence_has_no_links() {
    let text = "//! See [`mod@a`], [b](c) and [`d[e]`]. Not\n//! this.\n//!\n//! No.\n";
    assert_eq!(first_sentence(text), "See `a`, b and `d[e]`.");
    assert_eq!(first_sentence("//! One\n//! sentence:\n//! long.\n//!\n//! No.\n"), {
        "One sentence: long."
    });
}
