//! Options of programs on the object: read when it is loaded, and reported once where they are
//! wrong.

use core::time::Duration;
use std::path::Path;

use crate::c_programs::run_within;
use crate::{check, compile, on_object, run_silent};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn the_environment_may_change_after_load() {
    let program = compile("gcc", "environ.c");
    let engines: [&[(&str, &str)]; 3] =
        [&[], &[("SHEAVES_ENGINE", "rseq-cpu")], &[("SHEAVES_ENGINE", "portable")]];
    for variables in engines {
        run_silent(&program, &[], variables, MINUTE);
    }
    run_silent(&program, &[], &[("SHEAVES_GUARD", "1/4"), ("SHEAVES_LIMIT", "auto")], MINUTE);
}

/// What a shell script prints on standard error, line by line.
fn errors_of(script: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = on_object(Path::new("/bin/sh"), &["-c", script], variables);
    let output = run_within(MINUTE, &mut command);
    check(&command, &output, |text, _| text.is_empty());
    String::from_utf8(output.stderr).unwrap().lines().map(str::to_owned).collect()
}

/// Many programs below each other, and one after the other.
const TREE: &str = "for i in 1 2 3 4 5; do /bin/true; sh -c 'env /bin/true; /bin/true'; done";

#[test]
fn a_wrong_value_is_reported_once_in_a_tree_of_processes() {
    let lines = errors_of(TREE, &[("SHEAVES_ENGINE", "warp")]);
    let expected =
        "sheaves: SHEAVES_ENGINE=warp is ignored: expected one of auto, rseq, rseq-cpu, portable";
    assert_eq!(lines, [expected]);
}

#[test]
fn another_wrong_value_further_down_is_reported_too() {
    let script = format!("export SHEAVES_STATS=2; {TREE}; SHEAVES_STATS=3 /bin/true; {TREE}");
    let lines = errors_of(&script, &[("SHEAVES_ENGINE", "warp")]);
    let names: Vec<_> = lines.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
    // The shell cannot know what its commands have reported, so what it sets itself is reported by
    // each of them, and not again below it.
    let of_commands = |name| names.iter().filter(|other| **other == name).count();
    assert_eq!(of_commands("SHEAVES_ENGINE=warp"), 1, "{lines:?}");
    assert_eq!(of_commands("SHEAVES_STATS=2"), 20, "{lines:?}");
    assert_eq!(of_commands("SHEAVES_STATS=3"), 1, "{lines:?}");
    assert_eq!(names.len(), 22, "{lines:?}");
}

#[test]
fn a_misspelt_name_is_reported_once() {
    let lines = errors_of(TREE, &[("SHEAVES_PROFF", "524288")]);
    assert_eq!(lines, ["sheaves: SHEAVES_PROFF is unknown: did you mean SHEAVES_PROF?"]);
}

/// A write to a pipe that nothing reads sends SIGPIPE, which ends most programs.
#[test]
fn a_wrong_value_that_nothing_reads_ends_no_program() {
    let (reads, writes) = std::io::pipe().unwrap();
    drop(reads);
    let mut command = on_object(Path::new("/bin/true"), &[], &[("SHEAVES_ENGINE", "warp")]);
    let status = command.stderr(writes).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Names of other programs, of tests, of the command; empty values.
#[test]
fn what_is_not_wrong_is_not_reported() {
    let variables = [
        ("SHEAVES_OF_WHEAT", "12"),
        ("SHEAVES_TEST_X", "1"),
        ("SHEAVES_PRELOAD", "/nowhere"),
        ("SHEAVES_ENGINE", ""),
        ("SHEAVES_DEBUG", ""),
        ("SHEAVES_LIMIT", ""),
        ("SHEAVES_STATS_FILE", ""),
    ];
    assert_eq!(errors_of(TREE, &variables), [""; 0]);
    let script = "test -z \"$SHEAVES_REPORTED\"";
    assert_eq!(errors_of(script, &variables), [""; 0]);
}

/// A terminal shows what a value is, and does not do what it says.
#[test]
fn wrong_values_are_printed_as_text() {
    let lines = errors_of("true", &[("SHEAVES_ENGINE", "\u{1b}[2J\nx\u{e9}")]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(r"SHEAVES_ENGINE=\x1b[2J\nx\xc3\xa9 is ignored"), "{lines:?}");
}
