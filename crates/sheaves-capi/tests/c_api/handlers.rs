//! Readers of the headers, interrupted by signal handlers that read, after every instruction.

use core::time::Duration;
use std::path::Path;

use crate::urcu::{FLAVORS, compile_for, include};
use crate::{Link, compile, run, run_ok};

const LIMIT: Duration = Duration::from_secs(240);
const SOURCE: &str = "tests/c_api/handlers.c";

fn finds_nothing(program: &Path) {
    run_ok(program, &[], &[], LIMIT);
}

fn finds_nothing_with_fences(program: &Path) {
    run_ok(program, &[], &[("SHEAVES_RCU_FENCES", "1")], LIMIT);
}

#[test]
fn handlers_are_waited_for_inlined() {
    let program = compile("gcc", SOURCE, &[], Link::Shared);
    finds_nothing(&program);
    finds_nothing_with_fences(&program);
}

#[test]
fn handlers_are_waited_for_called() {
    finds_nothing(&compile("gcc", SOURCE, &["-DSHEAVES_NO_INLINE"], Link::Archive));
}

/// The other flavours are these readers under other names.
#[test]
fn handlers_are_waited_for_by_quiescent_states() {
    let program = compile_for(SOURCE, FLAVORS.len() - 1, &["-DQSBR"]);
    finds_nothing(&program);
    finds_nothing_with_fences(&program);
    let flags = ["-DFLAVOR_HEADER=<urcu-qsbr.h>", "-DQSBR", "-DSHEAVES_NO_INLINE", &include()];
    finds_nothing(&compile("gcc", SOURCE, &flags, Link::Shared));
}

#[test]
fn quiescent_state_that_stays_online_is_detected() {
    let program = compile_for(SOURCE, FLAVORS.len() - 1, &["-DQSBR", "-DBROKEN"]);
    let output = run(&program, &[], &[], LIMIT);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("held a freed object"), "{output:?}");
}
