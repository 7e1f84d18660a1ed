//! Programs for liburcu on this library: names, a stress test of every flavour, forks, hash table.
//!
//! `SHEAVES_TORTURE_MS`: how long each stress test runs, in milliseconds (default 500).

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{
    ENGINES, Link, compile, compile_with, has, here, language_of, run, run_ok, standards_of,
};

const LIMIT: Duration = Duration::from_secs(180);
/// Header and program name of each flavour.
pub(crate) const FLAVORS: [(&str, &[&str]); 4] = [
    ("urcu.h", &[]),
    ("urcu.h", &["-DRCU_MB"]),
    ("urcu-bp.h", &[]),
    ("urcu-qsbr.h", &["-D_LGPL_SOURCE"]),
];

/// Threads that use the lists, stacks and queues of the headers.
pub(crate) const STRUCTURES: &str = "tests/urcu/structures.c";
pub(crate) const C_OF_STRUCTURES: &str = "-std=gnu99";
/// liburcu's hash table on this library.
pub(crate) const LFHT: &str = "tests/urcu/lfht.c";

pub(crate) fn torture_ms() -> String {
    std::env::var("SHEAVES_TORTURE_MS").unwrap_or_else(|_| "500".into())
}

pub(crate) fn include() -> String {
    format!("-I{}", here("include/sheaves-urcu").display())
}

pub(crate) fn flags_of(flavor: usize) -> Vec<String> {
    let (header, more) = FLAVORS[flavor];
    let mut flags = vec![include(), format!("-DFLAVOR_HEADER=<{header}>")];
    flags.extend(more.iter().map(|&flag| flag.into()));
    flags
}

/// Compiles a program for a flavour.
pub(crate) fn compile_for(source: &str, flavor: usize, more: &[&str]) -> PathBuf {
    let flags = flags_of(flavor);
    let flags: Vec<_> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    compile("gcc", source, &flags, Link::Shared)
}

fn torture(flavor: usize) {
    let program = compile_for("tests/urcu/torture.c", flavor, &[]);
    for calls in ["cpu", "thread"] {
        run_ok(&program, &[&torture_ms(), calls], &[], LIMIT);
    }
    for engine in ENGINES {
        run_ok(&program, &[&torture_ms(), "global"], engine, LIMIT);
    }
    run_ok(&program, &[&torture_ms()], &[("SHEAVES_RCU_FENCES", "1")], LIMIT);
}

#[test]
fn torture_of_memb_finds_nothing() {
    torture(0);
}

#[test]
fn torture_of_mb_finds_nothing() {
    torture(1);
}

#[test]
fn torture_of_bp_finds_nothing() {
    torture(2);
}

#[test]
fn torture_of_qsbr_finds_nothing() {
    torture(3);
}

#[test]
fn torture_of_calls_finds_nothing() {
    let flags = [include(), "-DFLAVOR_HEADER=<urcu.h>".into(), "-DSHEAVES_NO_INLINE".into()];
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let program = compile("gcc", "tests/urcu/torture.c", &flags, Link::Archive);
    run_ok(&program, &[&torture_ms()], &[], LIMIT);
}

#[test]
fn torture_detects_readers_that_are_not_waited_for() {
    let flags = [include(), "-DFLAVOR_HEADER=<urcu.h>".into(), "-DWITHOUT_READERS".into()];
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let program = compile("gcc", "tests/urcu/torture.c", &flags, Link::Shared);
    let is_found = || {
        let output = run(&program, &["500"], &[], LIMIT);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        !output.status.success() && text.contains("too late") && !text.contains("\n0 too late")
    };
    // Repeated until it fails: threads have to run at the same time.
    assert!((0..40).any(|_| is_found()));
}

#[test]
fn parents_and_children_continue_after_a_fork() {
    for flavor in 0..FLAVORS.len() {
        let program = compile_for("tests/urcu/fork.c", flavor, &[]);
        for engine in ENGINES {
            run_ok(&program, &[], engine, LIMIT);
        }
    }
}

#[test]
fn flavors_share_a_program() {
    for link in [Link::Shared, Link::Archive] {
        let program = compile("gcc", "tests/urcu/flavors.c", &[&include()], link);
        for engine in ENGINES {
            run_ok(&program, &[], engine, LIMIT);
        }
    }
}

/// On the shared object. From an archive, a linker takes both definitions, as from liburcu's.
#[test]
fn programs_define_names_themselves() {
    let program = compile("gcc", "tests/urcu/own_names.c", &[&include()], Link::Shared);
    run_ok(&program, &[], &[], LIMIT);
}

/// In C and in C++: the structures are all in the headers.
#[test]
fn structures_lose_and_double_no_node() {
    for compiler in ["gcc", "clang++"].into_iter().filter(|compiler| has(compiler)) {
        let language = if compiler == "gcc" { C_OF_STRUCTURES } else { "-xc++" };
        let program = compile(compiler, STRUCTURES, &[language, &include()], Link::Shared);
        for engine in ENGINES {
            run_ok(&program, &[], engine, LIMIT);
        }
    }
}

/// The check of conditions at compile time refuses what is true or known at run time only.
#[test]
fn build_bugs_do_not_compile() {
    let languages = [("gcc", "c"), ("clang", "c"), ("g++", "c++"), ("clang++", "c++")];
    for (compiler, language) in languages.into_iter().filter(|(compiler, _)| has(compiler)) {
        for (bug, compiles) in [("number", false), ("1", false), ("0", true)] {
            let mut command = Command::new(compiler);
            command.args(["-fsyntax-only", "-x", language, &include(), &format!("-DBUG={bug}")]);
            command.arg(format!("-I{}", here("include").display())).arg(here(STRUCTURES));
            let output = command.output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), compiles, "{compiler}, {bug}: {errors}");
        }
    }
}

#[test]
fn headers_alone_compile_in_every_standard() {
    let headers = ["urcu.h", "urcu-bp.h", "urcu-qsbr.h", "urcu/urcu-memb.h", "urcu/urcu-mb.h"];
    let more = [
        "urcu-call-rcu.h",
        "urcu-defer.h",
        "urcu-pointer.h",
        "urcu/urcu-poll.h",
        "urcu/cds.h",
        "urcu/ref.h",
        "urcu/flavor.h",
        "urcu/pointer.h",
    ];
    for compiler in ["gcc", "clang", "g++", "clang++"] {
        for standard in standards_of(compiler) {
            for header in headers.iter().chain(&more) {
                let mut command = Command::new(compiler);
                command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", standard]);
                // A program that has these on must still compile.
                command.args(["-Wpedantic", "-Wshadow", "-Wconversion", "-Wcast-align"]);
                command.args(["-x", language_of(compiler), &include(), "-include", header]);
                command.arg(format!("-I{}", here("include").display()));
                compile_with(command.arg("/dev/null"));
            }
        }
    }
}

#[test]
fn hash_table_of_liburcu_counts_exactly() {
    if !has_lfht() {
        return eprintln!("skipped: liburcu-dev is not installed");
    }
    let program = compile("gcc", LFHT, &[&include()], Link::Shared);
    for engine in ENGINES {
        run_ok(&program, &["500"], engine, LIMIT);
    }
}

/// True where liburcu's structures are installed.
pub(crate) fn has_lfht() -> bool {
    Path::new("/usr/include/x86_64-linux-gnu/urcu/rculfhash.h").exists()
}
