//! The figures in the documents are those of the reports.

use std::fs;
use std::path::Path;

use xtask::{benchmarks, repo};

#[test]
fn figures_are_those_of_the_reports() {
    benchmarks::run(repo::root(), true, None).unwrap();
}

#[test]
fn a_changed_figure_is_found_and_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let (root, changed) = (folder.path(), folder.path().join("BENCHMARKS.md"));
    copy(repo::root(), root, "docs/benchmarks");
    for document in ["BENCHMARKS.md", "README.md", "docs/references.md"] {
        fs::copy(repo::root().join(document), root.join(document)).unwrap();
    }
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
