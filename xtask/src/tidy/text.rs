//! Rules that hold for the bytes of a text file: length, white space, paths of one machine.

use super::place;
use crate::finding::{Finding, Kind};
use crate::repo::TextFile;

/// Longest source file, in lines.
const FILE_LINES_MAX: usize = 500;
/// Longest source file in a folder of tests: a test file is read one test at a time.
const TEST_FILE_LINES_MAX: usize = 700;
/// Longest line of source, in characters.
const LINE_COLUMNS_MAX: usize = 100;

/// Endings of what counts as source for the limits on length; prose and data are not.
const SOURCE_ENDINGS: [&str; 7] = [".rs", ".c", ".h", ".cc", ".sh", ".py", ".toml"];
/// Written by tools, so the rules about text do not apply.
const GENERATED: [&str; 2] = ["Cargo.lock", crate::header::HEADER];

/// Beginnings of paths that exist on one machine only. They are put together here so that this file
/// does not hold them.
const MACHINE_PATHS: [&str; 4] = [
    concat!("/", "work/"),
    concat!("/", "root/"),
    concat!("/", "home/"),
    concat!("/", "tmp/bash_jobs"),
];

pub(crate) fn check(file: &TextFile, findings: &mut Vec<Finding>) {
    if GENERATED.contains(&file.path.as_str()) {
        return;
    }
    let mut report = |line, kind| findings.push(Finding::new(&file.path, line, kind));
    let is_source = is_source(file);
    let is_rust = file.path.ends_with(".rs");
    let mut lines = 0;
    for (line, number) in file.text.lines().zip(1..) {
        lines = number;
        let columns = line.chars().count();
        // A link cannot be broken.
        if is_source && columns > LINE_COLUMNS_MAX && !line.contains("://") {
            report(number, Kind::LineTooLong { columns, columns_max: LINE_COLUMNS_MAX });
        }
        if line.ends_with(char::is_whitespace) {
            report(number, Kind::TrailingSpace);
        }
        if is_rust && line.contains('\t') {
            report(number, Kind::Tab);
        }
        if let Some(path) = machine_path(line) {
            report(number, Kind::MachinePath { path });
        }
    }
    let lines_max =
        if place::is_in_tests_folder(&file.path) { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX };
    if is_source && lines > lines_max {
        report(1, Kind::FileTooLong { lines, lines_max });
    }
    let is_empty = file.text.is_empty();
    if !is_empty && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        report(lines, Kind::FinalNewline);
    }
}

/// Source by its ending, or a script by its first line.
fn is_source(file: &TextFile) -> bool {
    SOURCE_ENDINGS.iter().any(|ending| file.path.ends_with(ending)) || file.text.starts_with("#!/")
}

/// The machine path that the line holds, if it stands at the beginning of a path.
fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE_PATHS.into_iter().find(|path| {
        line.match_indices(path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "._-}/~*)".contains(c))
        })
    })
}
