//! Rules about the size of what a reader opens in a library crate: a file, and a folder.
//!
//! What still exceeds a limit is in a list that only shrinks: it may name nothing else.

use std::collections::{BTreeMap, BTreeSet};

use super::place;
use crate::finding::{Finding, Kind};
use crate::repo::TextFile;

/// Longest file, in lines.
const FILE_LINES_MAX: usize = 400;
/// Most files directly in a folder.
const FOLDER_FILES_MAX: usize = 16;
/// Folders of one shape repeated, which may have any number of files.
const EXEMPT: &str = "engine";

/// Files and folders that exceed a limit and are to be divided.
pub(crate) const EXCEEDING: [&str; 0] = [];
/// The file with the list.
const HERE: &str = "xtask/src/tidy/sizes.rs";

pub(crate) fn check(files: &[TextFile], exceeding: &[&str], findings: &mut Vec<Finding>) {
    let mut found = BTreeSet::new();
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    let is_code = |path: &str| place::is_library_code(path) && path.ends_with(".rs");
    for file in files.iter().filter(|file| is_code(&file.path)) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let kind = Kind::FileTooLong { lines, lines_max: FILE_LINES_MAX };
            found.insert((file.path.as_str(), kind));
        }
        if let Some((folder, _)) = file.path.rsplit_once('/') {
            *folders.entry(folder).or_default() += 1;
        }
    }
    for (folder, files) in folders {
        if files > FOLDER_FILES_MAX && !folder.ends_with(EXEMPT) {
            found.insert((folder, Kind::FolderTooFull { files, files_max: FOLDER_FILES_MAX }));
        }
    }
    for name in exceeding.iter().filter(|name| !found.iter().any(|(path, _)| path == *name)) {
        findings.push(Finding::new(HERE, 1, Kind::ExceedsNoMore { name: (*name).to_owned() }));
    }
    for (path, kind) in found.into_iter().filter(|(path, _)| !exceeding.contains(path)) {
        findings.push(Finding::new(path, 1, kind));
    }
}
