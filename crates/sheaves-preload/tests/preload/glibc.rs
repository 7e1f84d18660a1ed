//! Where the standards leave a choice, programs see what they see with glibc's heap.

use core::time::Duration;
use std::process::Command;

use crate::c_programs::{check, run_within};
use crate::{compile_as, on_object, run_silent};

const MINUTE: Duration = Duration::from_secs(60);
const MODES: [&[(&str, &str)]; 5] = [
    &[],
    &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
    &[("SHEAVES_HARDEN", "1")],
    &[("SHEAVES_HARDEN", "2")],
    &[("SHEAVES_DEBUG", "1")],
];

#[test]
fn a_program_prints_the_same_on_both_heaps() {
    // The compiler warns of blocks that are lost and of alignments that make no sense.
    let program = compile_as("gcc", "glibc.c", &["-w"]);
    let mut command = Command::new(&program);
    let expected = run_within(MINUTE, &mut command);
    check(&command, &expected, |text, errors| text.lines().count() > 80 && errors.is_empty());
    let expected = String::from_utf8(expected.stdout).unwrap();
    for variables in MODES {
        let mut command = on_object(&program, &[], variables);
        let output = run_within(MINUTE, &mut command);
        check(&command, &output, |text, _| {
            for (ours, theirs) in text.lines().zip(expected.lines()) {
                assert_eq!(ours, theirs, "{variables:?}");
            }
            text == expected
        });
    }
}

#[test]
fn mallopt_does_what_it_says_or_fails() {
    let program = compile_as("gcc", "mallopt.c", &[]);
    for variables in MODES {
        run_silent(&program, &[], variables, MINUTE);
    }
}
