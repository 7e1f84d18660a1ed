//! A plugin in Rust that contains the library is loaded and unloaded while its thread, and threads
//! that have used it, go on.

mod example;

use std::path::Path;
use std::process::Command;

#[test]
fn the_library_holds_the_object_that_it_is_in() {
    let host = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-host");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plugin/host.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]).args([&host, &source]).arg("-ldl");
    assert!(gcc.status().unwrap().success(), "{gcc:?}");
    let plugin = example::build(&["plugin"]).join("libplugin.so");
    for variables in [&[][..], &[("SHEAVES_ENGINE", "portable")], &[("SHEAVES_DEBUG", "1")]] {
        let variables: &[(&str, &str)] = variables;
        let mut command = Command::new(&host);
        let output = command.arg(&plugin).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success() && output.stdout == b"ok\n", "{variables:?}: {output:?}");
    }
}
