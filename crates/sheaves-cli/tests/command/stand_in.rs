//! Shared by the tests of the command: a preload object that speaks the protocol, and C programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// A directory that lives as long as the test process, for files that are built once.
fn built() -> &'static Path {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    BUILT.get_or_init(|| tempfile::tempdir().expect("a directory for built files")).path()
}

/// Runs the C compiler; `false` where it refuses.
pub(crate) fn gcc<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> bool {
    let output = Command::new("gcc").args(arguments).output().expect("gcc runs");
    output.status.success()
}

/// The stand-in for the preload object, built on first use.
pub(crate) fn stand_in() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/preload_stand_in.c");
        let object = built().join("stand_in.so");
        let path = object.to_str().expect("a path in UTF-8");
        assert!(gcc(["-shared", "-fPIC", "-O1", "-o", path, source]), "the stand-in compiles");
        object
    })
}

/// The command under test, with the stand-in, and without variables of the caller that change its
/// behaviour.
pub(crate) fn sheaves() -> assert_cmd::Command {
    let mut command = assert_cmd::Command::cargo_bin("sheaves").expect("the command is built");
    command.env("SHEAVES_PRELOAD", stand_in());
    for variable in ["LD_PRELOAD", "SHEAVES_STATS", "SHEAVES_STATS_FILE"] {
        command.env_remove(variable);
    }
    command
}

/// `sheaves run -- ARGUMENTS`.
pub(crate) fn sheaves_run<S: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = S>,
) -> assert_cmd::Command {
    let mut command = sheaves();
    command.args(["run", "--"]).args(arguments);
    command
}
