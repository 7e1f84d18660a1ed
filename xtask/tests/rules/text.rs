//! Length, white space, paths.

use xtask::finding::Kind;

use crate::{LIBRARY, assert_clean, assert_finds};

#[test]
fn file_too_long() {
    let lines = |count| "// Line.\n".repeat(count);
    assert_clean(LIBRARY, &lines(500));
    let finding = |lines, lines_max| (1, Kind::FileTooLong { lines, lines_max });
    assert_finds(LIBRARY, &lines(501), &[finding(501, 500)]);
    let test = "crates/sheaves-slab/tests/caches/storm.rs";
    assert_clean(test, &lines(700));
    assert_finds(test, &lines(701), &[finding(701, 700)]);
    assert_clean("docs/guide.md", &lines(900));
}

#[test]
fn line_too_long() {
    let line = |columns: usize| format!("// {}\n", "é".repeat(columns - 3));
    assert_clean(LIBRARY, &line(100));
    let finding = Kind::LineTooLong { columns: 101, columns_max: 100 };
    assert_finds(LIBRARY, &line(101), &[(1, finding.clone())]);
    assert_finds("tests/programs/run", &format!("#!/bin/sh\n{}", line(101)), &[(2, finding)]);
    assert_clean("README.md", &line(200));
    assert_clean(LIBRARY, &format!("// https://example.org/{}\n", "a".repeat(100)));
}

#[test]
fn white_space() {
    assert_finds(LIBRARY, "// One. \n", &[(1, Kind::TrailingSpace)]);
    assert_finds("README.md", "One.\t\n", &[(1, Kind::TrailingSpace)]);
    assert_finds(LIBRARY, "const A: &str = \"\t\";\n", &[(1, Kind::Tab)]);
    assert_clean("docs/fast-paths.md", "a\tb\n");
    assert_finds(LIBRARY, "// One.", &[(1, Kind::FinalNewline)]);
    assert_finds("README.md", "One.\n\n", &[(2, Kind::FinalNewline)]);
    assert_clean("empty.txt", "");
    assert_clean("Cargo.lock", "a \n\n");
}

#[test]
fn machine_path() {
    for folder in ["work", "root", "home"] {
        let text = format!("See `/{folder}/notes`.\n");
        let path = findings_path(&text);
        assert_eq!(path, Some(format!("/{folder}/")));
    }
    assert_eq!(
        findings_path(concat!("/tm", "p/bash_jobs.0/3\n")).as_deref(),
        Some(concat!("/tm", "p/bash_jobs"))
    );
    assert_clean("README.md", "https://example.org/home/page and crates/work/src\n");
}

/// The machine path that tidy finds in a document.
fn findings_path(text: &str) -> Option<String> {
    crate::findings_in("README.md", text).into_iter().find_map(|(_, kind)| match kind {
        Kind::MachinePath { path } => Some(path.to_owned()),
        _ => None,
    })
}
