//! References in documents lead to existing files.

use xtask::finding::Kind;
use xtask::repo::TextFile;

use crate::file;

/// The dead references of a document at `path`, with a few other files in the repository.
fn dead_references(path: &str, text: &str) -> Vec<(usize, String)> {
    let files: [TextFile; 4] = [
        file(path, text),
        file("SECURITY.md", "Security.\n"),
        file("docs/guide.md", "Guide.\n"),
        file("crates/sheaves-bench/src/table.rs", "// Table.\n"),
    ];
    let findings = xtask::tidy::check_files(&files).into_iter();
    let dead = findings.map(|finding| match finding.kind {
        Kind::DeadReference { target } => (finding.line, target),
        other => panic!("{other:?}"),
    });
    dead.collect()
}

#[test]
fn dead_link() {
    let dead = dead_references("README.md", "One.\n[a](docs/gone.md#x) [b](SECURITY.md)\n");
    assert_eq!(dead, [(2, "docs/gone.md".to_owned())]);
    let dead =
        dead_references("docs/index.md", "[a](guide.md) [b](../SECURITY.md) [c](SECURITY.md)\n");
    assert_eq!(dead, [(1, "docs/SECURITY.md".to_owned())]);
}

#[test]
fn dead_path_in_backticks() {
    let text =
        "See `crates/sheaves-bench/src/table.rs`, `crates/sheaves-bench/` and `crates/gone/`.\n";
    assert_eq!(dead_references("README.md", text), [(1, "crates/gone/".to_owned())]);
}

#[test]
fn text_that_is_no_reference() {
    let text = "`tests/`, `crates/*/src`, `docs/<name>.md`, `a crates/gone`, [x](#there),\n\
                [y](https://example.org/a), ![z](docs/plot.png)\n```sh\ncat `docs/gone`\n```\n";
    assert_eq!(dead_references("README.md", text), []);
}
