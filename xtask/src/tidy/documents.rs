//! The rule about documents: references lead to existing files.
//!
//! References are links to files of the repository, and paths in backticks that begin with one of
//! its folders. So a page about the code cannot outlive a renamed file.

use crate::finding::{Finding, Kind};
use crate::repo::TextFile;

/// Folders at the root; a path in backticks that begins with one of them must exist.
const FOLDERS: [&str; 6] = ["crates/", "xtask/", "tests/", "docs/", ".ci/", ".cargo/"];
/// Characters that make a path a pattern.
const PATTERN_MARKS: [char; 6] = ['*', '{', '<', ' ', '…', '$'];

pub(crate) fn check(files: &[TextFile], findings: &mut Vec<Finding>) {
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut in_code = false;
        for (line, number) in file.text.lines().zip(1..) {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            if in_code {
                continue;
            }
            let links = linked(line).map(|target| join(folder, target));
            for target in links.chain(quoted(line).map(str::to_owned)) {
                if !exists(files, &target) {
                    findings.push(Finding::new(&file.path, number, Kind::DeadReference { target }));
                }
            }
        }
    }
}

/// True when a file or a folder has this path.
fn exists(files: &[TextFile], target: &str) -> bool {
    let target = target.trim_end_matches('/');
    files.iter().any(|file| {
        file.path.strip_prefix(target).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Targets of links to files, without the part after `#`. Images are not text and are skipped.
fn linked(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.match_indices("](").filter(|(at, _)| {
        let opening = line[..*at].rfind('[').unwrap_or(0);
        !line[..opening].ends_with('!')
    });
    ends.filter_map(|(at, mark)| {
        let target = line[at + mark.len()..].split(')').next()?;
        let target = target.split('#').next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

/// Paths in backticks that begin with a folder of the repository.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    // Every second piece is inside backticks.
    line.split('`').skip(1).step_by(2).filter(|piece| {
        !piece.contains(PATTERN_MARKS)
            && FOLDERS
                .iter()
                .any(|folder| piece.strip_prefix(folder).is_some_and(|rest| !rest.is_empty()))
    })
}

/// Resolves `target`, relative to `folder`, to a path from the root.
pub(crate) fn join(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}
