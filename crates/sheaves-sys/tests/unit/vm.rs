//! Tests of private items of `memory/vm`.

extern crate std;

use super::*;

#[test]
fn the_word_in_brackets_is_the_setting() {
    for (text, setting, are_default, are_on_request) in [
        ("[always] madvise never\n", HugePages(1), true, false),
        ("always [madvise] never\n", HugePages(2), false, true),
        ("always madvise [never]\n", HugePages::NEVER, false, false),
        ("", HugePages(3), true, true),
        ("always inherit [other]\n", HugePages(3), true, true),
    ] {
        assert_eq!(HugePages::of_text(text.as_bytes()), setting, "{text}");
        assert_eq!(setting.are_default(), are_default, "{text}");
        assert_eq!(setting.are_on_request(), are_on_request, "{text}");
    }
}

#[test]
fn the_setting_is_that_of_the_kernel() {
    let text = std::fs::read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    assert_eq!(huge_pages(), HugePages::of_text(&text));
}
