//! Titles and texts of commits.

use xtask::finding::Kind;
use xtask::tidy::{check_commit, check_commits};

/// What is wrong with a commit; nothing if it is right.
fn fault(title: &str, body: &str) -> Option<&'static str> {
    let findings = check_commit("abc1234", title, body);
    assert!(findings.len() <= 1);
    findings.into_iter().next().map(|finding| match finding.kind {
        Kind::BadCommit { fault, .. } => fault,
        kind => panic!("{kind:?}"),
    })
}

#[test]
fn titles_say_what_is_done() {
    for title in [
        "slab: begin a reserved window at a whole granule",
        "slab, sys: live with small address spaces and few mappings",
        "xtask: install files by a rename",
    ] {
        assert_eq!(fault(title, "Why.\n"), None, "{title}");
    }
    for title in [
        "Begin a window at a granule",
        "slab: window",
        "slab: a window that begins at a granule",
        "slab: the window begins at a granule",
        "slab: two fixes",
        "slab: Begin a window",
        "Slab: begin a window",
        "slab:begin a window",
        "slab : begin a window",
        ": begin a window",
    ] {
        assert_eq!(fault(title, "Why.\n"), Some("is not `subsystem: verb ...`"), "{title}");
    }
    assert_eq!(fault("slab: begin; end", "Why.\n"), Some("has a semicolon"));
    let long = format!("slab: begin {}", "a".repeat(60));
    assert_eq!(fault(&long, "Why.\n"), None);
    assert_eq!(fault(&format!("{long}a"), "Why.\n"), Some("is longer than 72 columns"));
}

#[test]
fn texts_say_why() {
    for body in ["", "\n", " \n"] {
        let expected = Some("has no text below that says why");
        assert_eq!(fault("slab: begin a window", body), expected);
    }
}

/// Where git fails, no commit was checked.
#[test]
fn failure_of_git_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(check_commits(folder.path()).unwrap(), []);
    std::fs::create_dir(folder.path().join(".git")).unwrap();
    let error = check_commits(folder.path()).unwrap_err();
    assert!(format!("{error:#}").contains("git failed"), "{error:#}");
}
