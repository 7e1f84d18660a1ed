//! Forks together with other code: fork handlers that allocate, and signal handlers.

use core::time::Duration;

use crate::{compile, compile_as, run_silent};

const LIMIT: Duration = Duration::from_secs(180);

const CONFIGURATIONS: [&[(&str, &str)]; 4] = [
    &[],
    &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "2")],
    &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
    &[("SHEAVES_DEBUG", "1")],
];

#[test]
fn handlers_of_other_libraries_allocate_and_wait_for_threads() {
    let library = compile_as("gcc", "atfork_library.c", &["-shared", "-fPIC"]);
    let flags = ["-Wl,--no-as-needed", library.to_str().unwrap()];
    let program = compile_as("gcc", "atfork.c", &flags);
    for variables in CONFIGURATIONS {
        run_silent(&program, &["12"], variables, LIMIT);
    }
}

#[test]
fn signal_handlers_fork_in_the_middle_of_an_allocation() {
    let program = compile("gcc", "alarm_fork.c");
    for variables in CONFIGURATIONS {
        run_silent(&program, &["50"], variables, LIMIT);
    }
}

#[test]
fn children_without_fork_handlers_allocate() {
    let program = compile("gcc", "bare_fork.c");
    for variables in CONFIGURATIONS {
        run_silent(&program, &["40"], variables, LIMIT);
    }
}

#[test]
fn a_fork_with_one_thread_costs_the_same_with_many_caches() {
    let program = compile("gcc", "fork_cost.c");
    for variables in CONFIGURATIONS {
        run_silent(&program, &[], variables, LIMIT);
    }
}
