//! Options that are read are in the table.

use xtask::finding::Kind;

use crate::file;

/// What the rule says of a table with one row and a file that reads one option.
fn findings(row: &str, source: &str) -> Vec<Kind> {
    let table = format!("# Options\n\n{row}\n");
    let files = [file("docs/options.md", &table), file("crates/sheaves-rcu/src/mode.rs", source)];
    xtask::tidy::check_files(&files).into_iter().map(|finding| finding.kind).collect()
}

const ROW: &str = "| `SHEAVES_RCU_FENCES` | `1` | `0` | rcu | Readers use fences. |";
const READS: &str = "fn f() -> bool {\n    flag(\"SHEAVES_RCU_FENCES\")\n}\n";

#[test]
fn options_that_are_read_are_in_the_table() {
    assert_eq!(findings(ROW, READS), []);
    let other = READS.replace("FENCES", "OTHER");
    let (read, known) = ("SHEAVES_RCU_OTHER".to_owned(), "SHEAVES_RCU_FENCES".to_owned());
    let wanted = [Kind::OptionNotInTable { name: read }, Kind::OptionNotRead { name: known }];
    assert_eq!(findings(ROW, &other), wanted);
    let is_bad = |kind: &Kind| matches!(kind, Kind::BadOption { .. });
    assert!(findings("| `SHEAVES_RCU_FENCES` | `1` |", READS).iter().all(is_bad));
}
