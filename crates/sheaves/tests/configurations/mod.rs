//! Runs the tests of a program again in every configuration of the layers below. Each is a process
//! of its own, since options are read once.

use std::env;
use std::process::{Command, Stdio};

const CONFIGURATIONS: [&[(&str, &str)]; 6] = [
    &[("SHEAVES_ENGINE", "rseq")],
    &[("SHEAVES_ENGINE", "rseq-cpu")],
    &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "2")],
    &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
    &[("SHEAVES_RCU_FENCES", "1")],
    &[("SHEAVES_DEBUG", "1")],
];

/// Set in the processes that [`run_all`] starts.
const CHILD: &str = "SHEAVES_TEST_CHILD";

/// True in a process that [`run_all`] has started.
pub(crate) fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// Runs all tests of this program in every configuration; in one of them it does nothing.
pub(crate) fn run_all() {
    if is_child() {
        return;
    }
    // All at once: they wait more than they compute.
    let children = CONFIGURATIONS.map(|variables| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(CHILD, "1").envs(variables.iter().copied());
        (variables, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    });
    for (variables, child) in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{variables:?}: {}\n{text}\n{errors}", output.status);
    }
}
