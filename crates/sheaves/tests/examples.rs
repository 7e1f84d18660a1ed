//! The examples, run to their end: each checks its own result.

#[path = "plugin/example.rs"]
mod example;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

fn run(name: &str, says: &str) {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let examples = ["configuration", "routes", "across_await"];
    let folder = FOLDER.get_or_init(|| example::build(&examples));
    let configurations: [&[(&str, &str)]; 3] = [
        &[],
        &[("SHEAVES_RCU_FENCES", "1")],
        &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
    ];
    for variables in configurations {
        let path = folder.join(name);
        let output = Command::new(&path).envs(variables.iter().copied()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} {variables:?}: {}\n{errors}", output.status);
        assert!(text.contains(says), "{name} {variables:?}: {text}");
    }
}

#[test]
fn configuration() {
    run("configuration", "every read was of one configuration");
}

#[test]
fn routes() {
    run("routes", "no look-up missed a route");
}

#[test]
fn across_await() {
    run("across_await", "ended on another thread");
}
