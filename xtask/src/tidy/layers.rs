//! The rules about layers: the table in `ARCHITECTURE.md` against `cargo metadata`, and no file of
//! one crate compiled as a part of another.
//!
//! The table is between two marker comments, top layer first. A row names a crate, then the crates
//! that it may use: a list in backticks, or `all below`. A crate may depend only on crates in rows
//! below its own; dependencies of tests are exempt.

use std::collections::BTreeSet;
use std::path::Path;

use super::rust::RustFile;
use super::{documents, place};
use crate::finding::{Finding, Kind};
use crate::repo::{Dependency, Package, TextFile};

/// File that holds the layer table.
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const TABLE_BEGIN: &str = "<!-- layers:begin -->";
const TABLE_END: &str = "<!-- layers:end -->";
/// The value of the second column that allows all crates below.
const ALL_BELOW: &str = "all below";

/// The project's tools, which are outside the layers: they use no crate and no crate uses them.
const OUTSIDERS: [&str; 1] = ["xtask"];
/// The one external dependency of library crates without features.
const EXTERNAL_ALLOWED: &str = "libc";
/// Those that come with a feature: interfaces that programs expect of a library.
const OPTIONAL_ALLOWED: [&str; 3] = ["foldhash", "rayon", "serde"];
/// Model checkers, allowed under a `cfg` of the same name.
const MODEL_CHECKERS: [&str; 2] = ["loom", "shuttle"];

/// Compiled into both shared objects: it has a panic handler, which a program with `std` must not
/// get from a library.
const SHARED_FILE: &str = "crates/sheaves-preload/src/standalone.rs";

/// One row of the table.
struct Row {
    name: String,
    /// The crates that it may use; `None` means all crates below.
    allowed: Option<BTreeSet<String>>,
    line: usize,
}

pub(crate) fn check(root: &Path, files: &[TextFile], packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let text = files.iter().find(|file| file.path == ARCHITECTURE).map(|file| file.text.as_str());
    let rows = read_table(text.unwrap_or(""), &mut findings);
    check_table(&rows, packages, &mut findings);
    for package in packages {
        let manifest = package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path);
        let manifest = manifest.to_string_lossy().into_owned();
        let text = files.iter().find(|file| file.path == manifest);
        let text = text.map_or("", |file| file.text.as_str());
        check_package(&rows, packages, package, &Manifest { path: manifest, text }, &mut findings);
    }
    findings
}

/// Refuses `#[path = ...]` that leads into the source of another crate. Files of tests are shared.
pub(crate) fn check_paths(source: &RustFile, findings: &mut Vec<Finding>) {
    let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (index, token) in source.tokens.iter().enumerate() {
        if token.text != "path" || source.text_at(Some(index + 1)) != "=" {
            continue;
        }
        let target = source.text_at(Some(index + 2)).trim_matches('"');
        let target = documents::join(folder, target);
        if target != SHARED_FILE
            && target.split('/').nth(2) == Some("src")
            && place::crate_of(&target) != place::crate_of(&source.path)
        {
            findings.push(Finding::new(&source.path, token.line, Kind::ForeignFile { target }));
        }
    }
}

/// A `Cargo.toml`, to find the line of an edge.
struct Manifest<'text> {
    path: String,
    text: &'text str,
}

impl Manifest<'_> {
    fn line_of(&self, dependency: &str) -> usize {
        let names_it = |line: &str| {
            line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        self.text.lines().position(names_it).map_or(1, |index| index + 1)
    }
}

fn read_table(text: &str, findings: &mut Vec<Finding>) -> Vec<Row> {
    let mut report = |line, kind| findings.push(Finding::new(ARCHITECTURE, line, kind));
    let mut rows: Vec<Row> = Vec::new();
    let begin = text.lines().position(|line| line.trim() == TABLE_BEGIN);
    let end = text.lines().position(|line| line.trim() == TABLE_END);
    let (Some(begin), Some(end)) = (begin, end) else {
        report(1, Kind::LayerTableMissing);
        return rows;
    };
    let body = text.lines().enumerate().take(end).skip(begin + 1);
    // The first two lines of a table are its head.
    for (index, line) in body.filter(|(_, line)| line.starts_with('|')).skip(2) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let row = match cells.as_slice() {
            [name, allowed, _what] => parse_row(name, allowed, index + 1),
            _ => None,
        };
        match row {
            None => report(index + 1, Kind::LayerRowMalformed { row: line.to_owned() }),
            Some(row) if rows.iter().any(|other| other.name == row.name) => {
                report(row.line, Kind::LayerRowTwice { name: row.name });
            }
            Some(row) => rows.push(row),
        }
    }
    if rows.is_empty() {
        report(begin + 1, Kind::LayerTableMissing);
    }
    rows
}

fn parse_row(name: &str, allowed: &str, line: usize) -> Option<Row> {
    let in_backticks =
        |cell: &str| cell.strip_prefix('`')?.strip_suffix('`').map(|name| name.to_owned());
    let name = in_backticks(name)?;
    let allowed = match allowed {
        ALL_BELOW => None,
        "" => Some(BTreeSet::new()),
        list => Some(list.split(", ").map(in_backticks).collect::<Option<_>>()?),
    };
    Some(Row { name, allowed, line })
}

/// Checks the table itself: each row is a crate, each crate has a row, and rows list only crates
/// below.
fn check_table(rows: &[Row], packages: &[Package], findings: &mut Vec<Finding>) {
    if rows.is_empty() {
        return;
    }
    let mut report = |line, kind| findings.push(Finding::new(ARCHITECTURE, line, kind));
    for (depth, row) in rows.iter().enumerate() {
        if !packages.iter().any(|package| package.name == row.name) {
            report(row.line, Kind::LayerUnknownCrate { name: row.name.clone() });
        }
        for to in row.allowed.iter().flatten() {
            if depth_of(rows, to).is_none_or(|below| below <= depth) {
                let (from, to) = (row.name.clone(), to.clone());
                report(row.line, Kind::LayerListsUpward { from, to });
            }
        }
    }
    for package in packages {
        let name = &package.name;
        if depth_of(rows, name).is_none() && !OUTSIDERS.contains(&name.as_str()) {
            report(1, Kind::LayerMissingCrate { name: name.clone() });
        }
    }
}

fn check_package(
    rows: &[Row],
    packages: &[Package],
    package: &Package,
    manifest: &Manifest<'_>,
    findings: &mut Vec<Finding>,
) {
    let name = &package.name;
    let is_outsider = OUTSIDERS.contains(&name.as_str());
    let folder = manifest.path.trim_end_matches("/Cargo.toml");
    if !is_outsider && folder != format!("crates/{name}") {
        let kind = Kind::FolderName { folder: folder.to_owned(), name: name.clone() };
        findings.push(Finding::new(&manifest.path, 1, kind));
    }
    for dependency in &package.dependencies {
        if dependency.kind.as_deref() == Some("dev") {
            continue;
        }
        let is_inside = packages.iter().any(|other| other.name == dependency.name);
        let kind = if is_inside {
            edge_finding(rows, name, &dependency.name)
        } else if is_outsider || !place::is_library_crate(name) {
            None
        } else {
            external_finding(name, dependency)
        };
        if let Some(kind) = kind {
            let line = manifest.line_of(&dependency.name);
            findings.push(Finding::new(&manifest.path, line, kind));
        }
    }
}

/// The violation by an edge between two crates of the workspace, if any.
fn edge_finding(rows: &[Row], from: &str, to: &str) -> Option<Kind> {
    let edge = || (from.to_owned(), to.to_owned());
    if OUTSIDERS.contains(&from) || OUTSIDERS.contains(&to) {
        let (from, to) = edge();
        return Some(Kind::EdgeToOutsider { from, to });
    }
    // A crate without a row has its own finding.
    let (depth, below) = (depth_of(rows, from)?, depth_of(rows, to)?);
    let (from, to) = edge();
    if below <= depth {
        return Some(Kind::EdgeUpward { from, to });
    }
    let is_listed = rows[depth].allowed.as_ref().is_none_or(|allowed| allowed.contains(&to));
    (!is_listed).then_some(Kind::EdgeNotListed { from, to })
}

/// The violation by a dependency of a library crate on an external crate, if any.
fn external_finding(from: &str, dependency: &Dependency) -> Option<Kind> {
    let (from, to) = (from.to_owned(), dependency.name.clone());
    let is_optional = dependency.optional && OPTIONAL_ALLOWED.contains(&to.as_str());
    if to == EXTERNAL_ALLOWED || is_optional {
        return None;
    }
    if !MODEL_CHECKERS.contains(&to.as_str()) {
        return Some(Kind::ExternalDependency { from, to });
    }
    let is_under_cfg = dependency.target.as_ref().is_some_and(|target| target.contains(&to));
    (!is_under_cfg).then_some(Kind::ModelCheckerWithoutCfg { from, to })
}

/// Rows are counted from the top; a larger number is further down.
fn depth_of(rows: &[Row], name: &str) -> Option<usize> {
    rows.iter().position(|row| row.name == name)
}
