//! The figures in the documents are those of the reports.

use std::fs;
use std::path::Path;

use xtask::{benchmarks, repo};

#[test]
fn figures_are_those_of_the_reports() {
    benchmarks::run(repo::root(), true, None).unwrap();
}

/// A copy of the documents and the reports.
fn copied() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(repo::root(), folder.path(), "docs/benchmarks");
    for document in ["BENCHMARKS.md", "README.md", "docs/references.md"] {
        fs::copy(repo::root().join(document), folder.path().join(document)).unwrap();
    }
    folder
}

/// Each table may be measured again alone.
#[test]
fn tables_say_what_they_were_measured_on() {
    let folder = copied();
    let report = folder.path().join("docs/benchmarks/amd-zen-4/dispose.json");
    let text = fs::read_to_string(&report).unwrap();
    let (before, rest) = text.split_once("\"commit\":\"").unwrap();
    let (commit, after) = rest.split_once('"').unwrap();
    fs::write(&report, format!("{before}\"commit\":\"abcdef\"{after}")).unwrap();
    benchmarks::run(folder.path(), false, None).unwrap();
    for document in ["BENCHMARKS.md", "docs/references.md"] {
        let text = fs::read_to_string(folder.path().join(document)).unwrap();
        assert!(text.contains("commit abcdef: `dispose`."), "{document}");
        assert!(text.contains(&format!("commit {commit}: `")), "{document}");
    }
}

#[test]
fn a_changed_figure_is_found_and_written_again() {
    let folder = copied();
    let (root, changed) = (folder.path(), folder.path().join("BENCHMARKS.md"));
    let text = fs::read_to_string(&changed).unwrap();
    fs::write(&changed, text.replace("| `pair` |", "| `piar` |")).unwrap();
    let error = benchmarks::run(root, true, None).unwrap_err().to_string();
    assert!(error.contains("BENCHMARKS.md is stale"), "{error}");
    benchmarks::run(root, false, None).unwrap();
    assert_eq!(fs::read_to_string(&changed).unwrap(), text);
}

/// The ratio of two medians may be one that no round had.
#[test]
fn ratios_lie_between_their_percentiles() {
    let numbers = |line: &str| -> Option<[f64; 3]> {
        let (before, after) = line.split_once("..")?;
        let (before, low) = before.rsplit_once(" (")?;
        let (_, ratio) = before.rsplit_once("| ")?;
        let (high, _) = after.split_once(')')?;
        Some([ratio, low, high].map(|number| number.parse().unwrap()))
    };
    let text = fs::read_to_string(repo::root().join("BENCHMARKS.md")).unwrap();
    let all: Vec<_> = text.lines().filter_map(numbers).collect();
    assert!(all.len() > 50, "{} lines have a ratio", all.len());
    assert!(all.iter().all(|[ratio, low, high]| low <= ratio && ratio <= high), "{all:?}");
}

fn copy(from: &Path, to: &Path, folder: &str) {
    fs::create_dir_all(to.join(folder)).unwrap();
    for entry in fs::read_dir(from.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            copy(from, to, &path);
        } else {
            fs::copy(entry.path(), to.join(path)).unwrap();
        }
    }
}
