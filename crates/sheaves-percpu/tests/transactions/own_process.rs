//! Runs a test of this program again, in a process of its own. Also used by tests of other crates.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

/// A process that hangs is killed after this time.
const ALARM_SECONDS: u32 = 300;

/// This program, with variables; ended by an alarm if it hangs.
pub(crate) fn command(variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let prepare = || {
        // SAFETY: an integer only. The alarm outlives exec.
        unsafe { libc::alarm(ALARM_SECONDS) };
        Ok(())
    };
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(prepare) };
    command.envs(variables.iter().copied());
    command
}

/// Runs one test with variables, by which it knows where it is; panics when it fails.
pub(crate) fn pass(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = command(variables);
    command.args(["--exact", test, "--test-threads=1", "--nocapture", "--include-ignored"]);
    let output = command.output().unwrap();
    let [text, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    // With a name that is not a test's, no test would run, and that would pass as well.
    let has_passed = output.status.success() && text.contains("1 passed");
    assert!(has_passed, "{test}, {variables:?}: {}\n{text}\n{errors}", output.status);
    output
}
