//! The project's rules, checked by program: `cargo xtask tidy`, and the test `tests/tidy.rs`.
//!
//! Each file below has one family of rules and a function `check`. Each rule can be given a
//! snippet, and `tests/rules` proves that each can fail. Limits and names are constants at the top
//! of the file that uses them.

mod cfg;
mod circles;
mod commits;
mod documents;
mod layers;
mod machine;
mod options;
mod orderings;
pub(crate) mod place;
mod rust;
mod shape;
mod sizes;
mod text;
mod twins;
mod words;

use std::path::Path;

use anyhow::Context as _;

use crate::finding::{Finding, Kind};
use crate::repo::{self, Package, TextFile};
use crate::rooms;

/// Checks the whole repository; the findings are sorted by file and line.
pub fn run(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let files = repo::text_files(root)?;
    let mut findings = check_files(&files);
    findings.extend(check_sizes(&files, &sizes::EXCEEDING));
    findings.extend(check_rooms(&files));
    let packages = repo::packages(root).context("the crates of the workspace")?;
    findings.extend(check_layers(root, &files, &packages));
    findings.extend(check_commits(root)?);
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// Applies the rules about the text of files. A set of files is checked as one repository: a module
/// that one file declares as test code is test code in its own file.
#[must_use]
pub fn check_files(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut sources = Vec::new();
    for file in files {
        text::check(file, &mut findings);
        words::check(file, &mut findings);
        if file.path.ends_with(".rs") {
            match rust::RustFile::parse(file) {
                Ok(source) => sources.push(source),
                Err(finding) => findings.push(finding),
            }
        }
        shape::check_path(file, &mut findings);
    }
    let test_modules = place::test_modules(&sources);
    for source in &sources {
        shape::check(source, &mut findings);
        layers::check_paths(source, &mut findings);
        if place::is_library_code(&source.path) && !test_modules.holds(&source.path) {
            machine::check(source, &mut findings);
            orderings::check(source, &mut findings);
            circles::check_loom(source, &mut findings);
        }
    }
    circles::check(&sources, &test_modules, &mut findings);
    twins::check(files, &sources, &test_modules, &mut findings);
    documents::check(files, &mut findings);
    options::check(files, &mut findings);
    machine::check_no_std(&sources, &mut findings);
    orderings::check_labels(&sources, &test_modules, &mut findings);
    findings.sort();
    findings
}

/// The twins of the library crates, explained or not, each with the start of its line in the list.
pub fn twins(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = repo::text_files(root)?;
    let code = files.iter().filter(|file| file.path.ends_with(".rs"));
    let sources: Vec<_> = code.filter_map(|file| rust::RustFile::parse(file).ok()).collect();
    let found = twins::find(&sources, &place::test_modules(&sources));
    Ok(found.iter().map(twins::Twin::report).collect())
}

/// What the rule about words refuses.
pub fn refused_words() -> impl Iterator<Item = &'static str> {
    words::refused()
}

/// Applies the rules about the size of files and folders of library crates; what `exceeding` names
/// may, and has to.
#[must_use]
pub fn check_sizes(files: &[TextFile], exceeding: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    sizes::check(files, exceeding, &mut findings);
    findings
}

/// Compares the table of rooms in `ARCHITECTURE.md` with the tree.
#[must_use]
pub fn check_rooms(files: &[TextFile]) -> Option<Finding> {
    let committed = files.iter().find(|file| file.path == rooms::DOCUMENT)?;
    let made = rooms::document(files).unwrap_or_default();
    let mut lines = committed.text.lines().zip(made.lines()).zip(1..);
    let line = lines.find(|((committed, made), _)| committed != made).map_or(1, |(_, line)| line);
    (committed.text != made).then(|| Finding::new(rooms::DOCUMENT, line, Kind::RoomsStale))
}

/// Applies the rule about layers: the table in `ARCHITECTURE.md` against the crates of the
/// workspace.
#[must_use]
pub fn check_layers(root: &Path, files: &[TextFile], packages: &[Package]) -> Vec<Finding> {
    layers::check(root, files, packages)
}

/// Applies the rules about commits to the history, which an unpacked archive does not have.
pub fn check_commits(root: &Path) -> anyhow::Result<Vec<Finding>> {
    commits::check(root)
}

/// Applies the rules about commits to one: its short name, title, and the text below.
#[must_use]
pub fn check_commit(hash: &str, title: &str, body: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    commits::check_one(hash, title, body, &mut findings);
    findings
}
