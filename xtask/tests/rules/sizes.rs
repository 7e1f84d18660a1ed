//! Length of files and folders of library crates, the list of what still exceeds a limit, and the
//! table of rooms.

use xtask::finding::{Finding, Kind};

use crate::{LIBRARY, TOOL, file};

fn sizes(path: &str, lines: usize, files: usize, exceeding: &[&str]) -> Vec<(String, Kind)> {
    let others = (1..files).map(|n| file(&path.replace(".rs", &format!("_{n}.rs")), ""));
    let files: Vec<_> = [file(path, &"\n".repeat(lines))].into_iter().chain(others).collect();
    let findings = xtask::tidy::check_sizes(&files, exceeding).into_iter();
    findings.map(|Finding { file, kind, .. }| (file, kind)).collect()
}

#[test]
fn file_too_long() {
    let finding = (LIBRARY.to_owned(), Kind::FileTooLong { lines: 401, lines_max: 400 });
    assert_eq!(sizes(LIBRARY, 401, 1, &[]), [finding]);
    assert_eq!(sizes(LIBRARY, 400, 1, &[]), []);
    assert_eq!(sizes(TOOL, 401, 1, &[]), []);
    assert_eq!(sizes("crates/sheaves-slab/tests/depot.rs", 401, 1, &[]), []);
    assert_eq!(sizes(LIBRARY, 401, 1, &[LIBRARY]), []);
}

#[test]
fn folder_too_full() {
    let folder = "crates/sheaves-slab/src";
    let finding = (folder.to_owned(), Kind::FolderTooFull { files: 17, files_max: 16 });
    assert_eq!(sizes(LIBRARY, 1, 17, &[]), [finding]);
    assert_eq!(sizes(LIBRARY, 1, 16, &[]), []);
    assert_eq!(sizes(TOOL, 1, 17, &[]), []);
    assert_eq!(sizes("crates/sheaves-percpu/src/engine/rseq.rs", 1, 17, &[]), []);
    assert_eq!(sizes(LIBRARY, 1, 17, &[folder]), []);
}

#[test]
fn list_names_what_exceeds_only() {
    for name in [LIBRARY, "crates/sheaves-slab/src", "crates/no/src/such.rs"] {
        let kind = Kind::ExceedsNoMore { name: name.to_owned() };
        let finding = ("xtask/src/tidy/sizes.rs".to_owned(), kind);
        assert_eq!(sizes(LIBRARY, 400, 16, &[name]), [finding]);
    }
}

#[test]
fn table_of_rooms_is_stale() {
    let page = |sentence: &str| {
        let row = format!("| `depot.rs` | {sentence} |");
        let table = format!("\n| `crates/sheaves-slab/src/` | |\n|---|---|\n{row}\n\n");
        let text = format!("<!-- rooms:begin -->\n{table}<!-- rooms:end -->\n");
        [file("ARCHITECTURE.md", &text), file(LIBRARY, "//! The depot.\n")]
    };
    assert_eq!(xtask::tidy::check_rooms(&page("The depot.")), None);
    let finding = xtask::tidy::check_rooms(&page("Other things.")).unwrap();
    assert_eq!((finding.line, finding.kind), (5, Kind::RoomsStale));
    assert!(xtask::tidy::check_rooms(&[file("ARCHITECTURE.md", "# No table\n")]).is_some());
}
