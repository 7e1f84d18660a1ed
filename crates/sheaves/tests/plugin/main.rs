//! A plugin in Rust that contains the library is loaded and unloaded while its thread, and threads
//! that have used it, go on.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The plugin, which is an example for cargo.
fn plugin() -> PathBuf {
    // This program is TARGET/PROFILE/deps/NAME-*.
    let program = std::env::current_exe().unwrap();
    let folder = program.ancestors().nth(2).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    // With the features of the whole workspace, as `cargo test --workspace` has built it.
    cargo.args(["build", "-q", "--workspace", "--example", "plugin", "--target-dir"]);
    cargo.arg(folder.parent().unwrap());
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "{cargo:?}");
    folder.join("examples/libplugin.so")
}

#[test]
fn the_library_holds_the_object_that_it_is_in() {
    let host = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-host");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plugin/host.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]).args([&host, &source]).arg("-ldl");
    assert!(gcc.status().unwrap().success(), "{gcc:?}");
    let plugin = plugin();
    for variables in [&[][..], &[("SHEAVES_ENGINE", "portable")], &[("SHEAVES_DEBUG", "1")]] {
        let variables: &[(&str, &str)] = variables;
        let mut command = Command::new(&host);
        let output = command.arg(&plugin).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success() && output.stdout == b"ok\n", "{variables:?}: {output:?}");
    }
}
