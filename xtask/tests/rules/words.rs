//! Words that comments and documents do not use.

use xtask::finding::Kind;

use crate::file;

/// The refused words of a file, with their lines.
fn refused(path: &str, text: &str) -> Vec<(usize, &'static str)> {
    let findings = xtask::tidy::check_files(&[file(path, text)]).into_iter();
    let words = findings.map(|finding| match finding.kind {
        Kind::RefusedWords { refused } => (finding.line, refused),
        other => panic!("{other:?}"),
    });
    words.collect()
}

#[test]
fn threads_are_no_persons() {
    for word in xtask::tidy::refused_words() {
        let comment = format!("fn f() {{}}\n\n// {} leads.\n", word.to_uppercase());
        assert_eq!(refused("xtask/src/a.rs", &comment), [(3, word)]);
        assert_eq!(refused("docs/a.md", &format!("Waits, {word}.\n")), [(1, word)]);
    }
}

#[test]
fn parts_of_words_and_code_are_none() {
    let text = "// The cache of nowhere, this.\nconst HE: &str = \"nobody\";\n";
    assert_eq!(refused("xtask/src/a.rs", text), []);
}

#[test]
fn threads_are_named_in_comments_of_code() {
    assert_eq!(refused("xtask/src/a.rs", "// Who waits is woken.\n"), [(1, "who")]);
    assert_eq!(refused("xtask/src/a.rs", "// The whole, by `who`.\n"), []);
    assert_eq!(refused("docs/a.md", "For programs, and for people who write them.\n"), []);
    assert_eq!(refused("docs/a.md", "The thread who waits, and people who wait.\n"), [(1, "who")]);
}

#[test]
fn the_kernel_is_not_the_system() {
    let text = "// Asks the system.\n// The system's allocator, by the system call.\n";
    assert_eq!(refused("xtask/src/a.rs", text), [(1, "the system")]);
    assert_eq!(refused("docs/a.md", "Prepares the system.\n"), []);
}

#[test]
fn documentation_begins_with_what_it_is_about() {
    for (text, words) in [
        ("/// Has pages made.\nfn f() {}\n", "Has "),
        ("//! As many as there are.\n", "As many "),
        ("    /// So long as it lives.\n    fn f() {}\n", "So long"),
    ] {
        assert_eq!(refused("xtask/src/a.rs", text), [(1, words)]);
    }
    let text = "// Has the page.\n/// It\n/// has the page, as many as there are.\nfn f() {}\n";
    assert_eq!(refused("xtask/src/a.rs", text), []);
    for text in ["As many as there are.\n", "- As many as two.\n", "| As many as |\n"] {
        assert_eq!(refused("docs/a.md", text), [(1, "As many ")]);
    }
    assert_eq!(refused("docs/a.md", "It has as many as there are.\n"), []);
}
