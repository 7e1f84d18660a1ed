//! Runs the texts in `docs/litmus` under the Linux kernel's memory model.
//!
//! The checker is exhaustive: it makes every execution that a text could have, keeps those that the
//! axioms allow, and says whether the condition of the text holds in none of them, in some or in
//! all. The verdict has to be that of the text's own comment and of the table in
//! `docs/litmus/README.md`.
//!
//! ```sh
//! cargo test -p sheaves-rcu --test litmus
//! ```
//!
//! `controls` has known texts that test the checker, and `refusals` texts that it must not take.

mod candidates;
mod controls;
mod execution;
mod model;
mod parse;
mod paths;
mod program;
mod refusals;
mod relation;
mod tokens;

use std::collections::BTreeMap;
use std::path::PathBuf;

use candidates::judge;
use model::Model;
use parse::parse;
use program::{Litmus, Verdict};

/// The first line of the table.
const HEAD: &str = "| file | the fence of the reader | expected |";
/// A fence in a text.
const FENCE: &str = "\tsmp_mb();\n";

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "litmus"].iter().collect()
}

/// The texts in the folder, by the names of their files.
fn texts() -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "litmus") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            texts.insert(name, std::fs::read_to_string(path).unwrap());
        }
    }
    texts
}

/// The files and verdicts in the table of the README.
fn table() -> BTreeMap<String, Verdict> {
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let (_, rows) = readme.split_once(HEAD).expect("the README has the table");
    let mut table = BTreeMap::new();
    for row in rows.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [link, _, verdict] = cells[..] else { panic!("a row has three cells: {row}") };
        let names = link.strip_prefix('[').and_then(|link| link.strip_suffix(')'));
        let (name, target) = names.and_then(|names| names.split_once("](")).expect(row);
        assert_eq!(name, target, "a link has the name of its file");
        let verdict = Verdict::of(verdict).expect(row);
        assert_eq!(table.insert(name.to_owned(), verdict), None, "{name} has two rows");
    }
    table
}

fn read(name: &str, text: &str) -> Litmus {
    parse(text).unwrap_or_else(|reason| panic!("{name}: {reason}"))
}

fn verdict(name: &str, text: &str) -> Verdict {
    judge(&read(name, text), Model::WHOLE).unwrap_or_else(|reason| panic!("{name}: {reason}"))
}

#[test]
fn the_table_has_a_row_for_each_text() {
    let (texts, table) = (texts(), table());
    assert!(!texts.is_empty(), "no texts in {}", folder().display());
    assert_eq!(texts.keys().collect::<Vec<_>>(), table.keys().collect::<Vec<_>>());
}

#[test]
fn texts_have_the_verdicts_of_the_table() {
    let table = table();
    let mut wrong = Vec::new();
    for (name, text) in texts() {
        let found = verdict(&name, &text);
        let promised = [table.get(&name).copied(), read(&name, &text).result];
        if promised != [Some(found); 2] {
            wrong.push(format!("{name}: {found}; the table and the text say {promised:?}"));
        }
    }
    assert!(wrong.is_empty(), "wrong verdicts:\n{}", wrong.join("\n"));
}

/// Each claim rests on the fence of the reader, and so does not hold for a trivial reason.
#[test]
fn without_the_fence_of_the_reader_no_claim_holds() {
    for (name, text) in texts() {
        if table().get(&name) != Some(&Verdict::Never) {
            continue;
        }
        let (reader, updater) = text.split_once("\nP1(").expect(&name);
        assert_eq!(reader.matches(FENCE).count(), 1, "{name}: the reader has one fence");
        let without = format!("{}\nP1({updater}", reader.replace(FENCE, ""));
        assert_eq!(verdict(&name, &without), Verdict::Sometimes, "{name}");
    }
}
