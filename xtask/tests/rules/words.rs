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
    let text = "//! Whoever waits.\n\n/// Somebody leads,\n/// and he sleeps.\nfn f() {}\n";
    let found = refused("xtask/src/a.rs", text);
    assert_eq!(found, [(1, "whoever"), (3, "somebody"), (4, "he")]);
    assert_eq!(refused("docs/a.md", "The moment of now.\n"), [(1, "of now")]);
}

#[test]
fn parts_of_words_and_code_are_none() {
    let text = "// The cache of nowhere, this.\nconst HE: &str = \"nobody\";\n";
    assert_eq!(refused("xtask/src/a.rs", text), []);
}
