//! Tests of `src/run/resolve.rs`.

use super::*;
use crate::refusal::{NOT_EXECUTABLE, NOT_FOUND};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

fn file(directory: &Path, name: &str, mode: u32) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, "").expect("written");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("changed");
    path
}

#[test]
fn search_passes_over_what_cannot_be_executed() {
    let (first, second) = (tempfile::tempdir(), tempfile::tempdir());
    let (first, second) = (first.expect("a directory"), second.expect("a directory"));
    file(first.path(), "tool", 0o644);
    let list = env::join_paths([first.path(), second.path()]).expect("a list");
    let refusal = search(OsStr::new("tool"), &list).expect_err("not executable");
    assert_eq!(refusal.status, NOT_EXECUTABLE);
    let good = file(second.path(), "tool", 0o755);
    assert_eq!(search(OsStr::new("tool"), &list).expect("found"), good);
}

#[test]
fn search_takes_no_directory_and_no_empty_name() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("tool")).expect("made");
    let list = directory.path().as_os_str();
    for name in ["tool", "", "absent"] {
        let refusal = search(OsStr::new(name), list).expect_err(name);
        assert_eq!(refusal.status, NOT_FOUND, "{name:?}");
    }
}
