//! Programs in C and C++: the examples, and one that loads the library repeatedly.

use core::time::Duration;

use crate::{ENGINES, Link, compile, libraries, run, run_ok};

const LIMIT: Duration = Duration::from_secs(120);
pub(crate) const EXAMPLES: [&str; 7] = [
    "examples/cache.c",
    "examples/calls.c",
    "examples/memory.c",
    "examples/percpu.c",
    "examples/rcu.c",
    "examples/srcu.c",
    "examples/statistics.c",
];
pub(crate) const EXAMPLE_FLAGS: [&str; 2] = ["-std=gnu99", "-pedantic"];
/// A program that loads and unloads the library.
pub(crate) const RELOAD: &str = "tests/c_api/reload.c";

fn run_everywhere(compiler: &str, source: &str, flags: &[&str]) {
    for link in [Link::Shared, Link::Archive] {
        let program = compile(compiler, source, flags, link);
        for engine in ENGINES {
            run_ok(&program, &[], engine, LIMIT);
        }
    }
}

#[test]
fn examples_in_c_run() {
    for source in EXAMPLES {
        run_everywhere("gcc", source, &EXAMPLE_FLAGS);
    }
}

#[test]
fn readers_that_are_not_inlined_run() {
    run_everywhere("gcc", "examples/rcu.c", &["-std=gnu99", "-DSHEAVES_NO_INLINE"]);
}

#[test]
fn readers_of_the_parent_are_not_waited_for_in_a_child() {
    run_everywhere("gcc", "tests/c_api/forks.c", &["-std=gnu99"]);
}

#[test]
fn frees_keep_errno_where_memory_is_short() {
    run_everywhere("gcc", "tests/c_api/errno.c", &["-std=gnu99"]);
}

#[test]
fn wrong_arguments_are_errors() {
    run_everywhere("gcc", "tests/c_api/errors.c", &["-std=gnu99"]);
}

#[test]
fn section_of_a_domain_that_is_ended_twice_is_found() {
    let program = compile("gcc", "tests/c_api/srcu_twice.c", &["-std=gnu99"], Link::Shared);
    for engine in ENGINES {
        let output = run(&program, &[], engine, LIMIT);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("srcu: a section was ended twice"), "{output:?}");
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn refused_calls_leak_nothing() {
    run_everywhere("gcc", "tests/c_api/refused.c", &["-std=gnu99"]);
}

#[test]
fn usable_size_may_be_used_by_fortified_programs() {
    let flags = ["-std=gnu99", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"];
    run_everywhere("gcc", "tests/c_api/fortified.c", &flags);
}

#[test]
fn heap_profile_finds_known_amounts() {
    let flags = ["-std=gnu99", "-fno-omit-frame-pointer"];
    for link in [Link::Shared, Link::Archive] {
        let program = compile("gcc", "tests/c_api/profile.c", &flags, link);
        for (engine, when) in
            ENGINES.into_iter().flat_map(|engine| [(engine, "now"), (engine, "late")])
        {
            run_ok(&program, &[when], engine, LIMIT);
        }
    }
}

#[test]
fn library_is_loaded_and_unloaded() {
    // Linked to the archive for its flags only: it is not used.
    let program = compile("gcc", RELOAD, &[], Link::Archive);
    let library = libraries().join("libsheaves.so");
    for engine in ENGINES {
        run_ok(&program, &[library.to_str().unwrap()], engine, LIMIT);
    }
}
