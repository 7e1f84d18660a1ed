//! The heap's response to bad input: one line and a defined result.
//!
//! Each case runs in a process of its own: [`check`] starts this program again for one case.
//! Corruption ends it by `SIGABRT` with exactly one line on standard error. Every other case
//! continues, and prints the lines that the case lists and no more.

mod corruption;
mod limits;
mod map_count;
#[path = "../../../sheaves-percpu/tests/memory/mappings.rs"]
mod mappings;
mod occupied;
mod options;
mod sizes;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// The expected end of the process of a case.
#[derive(Debug, Clone, Copy)]
enum End {
    /// `SIGABRT`, and one line that contains this text.
    Dies(&'static str),
    /// Success, and one line for each text.
    GoesOn(&'static [&'static str]),
}

/// Runs one case in a process of its own.
fn check(case: &str, variables: &[(&str, &str)], end: End) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", case, "--nocapture"])
        .env("SHEAVES_CASE", case)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    // Before a line on a second free, debug mode has one on the first one.
    let is_finding = |line: &&str| !line.contains(" was freed last by ");
    let lines: Vec<&str> = errors.lines().filter(is_finding).collect();
    let expected: &[&str] = match end {
        End::Dies(ref text) => {
            assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
            core::slice::from_ref(text)
        }
        End::GoesOn(texts) => {
            assert!(output.status.success(), "{output:?}");
            let passed = String::from_utf8_lossy(&output.stdout).contains("1 passed");
            assert!(passed, "nothing ran: {output:?}");
            texts
        }
    };
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, text) in lines.iter().zip(expected) {
        assert!(line.starts_with("sheaves: ") && line.contains(text), "{line} has no {text}");
    }
}

/// True in the process of this case.
fn is_child(case: &str) -> bool {
    std::env::var("SHEAVES_CASE").is_ok_and(|name| name == case)
}

/// Defines cases: name, environment, expected end, and body.
macro_rules! cases {
    ($($(#[$doc:meta])* $name:ident $variables:expr, $end:expr => $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            let case = concat!(module_path!(), "::", stringify!($name));
            let case = case.split_once("::").map_or(case, |(_, case)| case);
            if crate::is_child(case) {
                $body
            } else {
                crate::check(case, &$variables, $end);
            }
        }
    )*};
}
use cases;
