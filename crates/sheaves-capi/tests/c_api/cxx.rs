//! The C++ headers: the paragraphs of the standard, the classes, and what must not compile.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{ENGINES, Link, compile, compile_with, has, here, run_ok};

const LIMIT: Duration = Duration::from_secs(120);
/// Programs in C++, each of which prints `ok`.
pub(crate) const PROGRAMS: [&str; 4] = [
    "examples/containers.cpp",
    "examples/retire.cpp",
    "tests/cxx/classes.cpp",
    "tests/cxx/rcu.cpp",
];
const WARNINGS: [&str; 3] = ["-Wpedantic", "-Wconversion", "-Wshadow"];

/// Compiles a program of C++ with more warnings than others.
fn compile_cxx(compiler: &str, source: &str, flags: &[&str], link: Link) -> PathBuf {
    compile(compiler, source, &[flags, &WARNINGS].concat(), link)
}

#[test]
fn cxx_programs_run_on_every_engine() {
    for (source, link) in PROGRAMS.into_iter().zip([Link::Shared, Link::Archive].repeat(2)) {
        let program = compile_cxx("g++", source, &["-std=c++17"], link);
        for engine in ENGINES {
            run_ok(&program, &[], engine, LIMIT);
        }
    }
}

/// The newest standards have the names that each of the compilers knows.
#[test]
fn cxx_tests_run_in_every_standard_and_dialect() {
    for (compiler, newest) in [("g++", "c++23"), ("clang++", "c++2b")] {
        if !has(compiler) {
            eprintln!("skipped: {compiler} is not installed");
            continue;
        }
        let standard = |name: &str| format!("-std={name}");
        let dialects: [&[&str]; 3] = [
            &[&standard(newest), "-DAS_STANDARD"],
            &["-std=c++20", "-fno-exceptions", "-fno-rtti", "-DSHEAVES_NO_INLINE"],
            &["-std=c++17", "-fvisibility=hidden", "-O0"],
        ];
        for flags in dialects {
            for source in ["tests/cxx/rcu.cpp", "tests/cxx/classes.cpp"] {
                let program = compile_cxx(compiler, source, flags, Link::Shared);
                run_ok(&program, &[], &[], LIMIT);
            }
        }
    }
}

/// What a compiler says of each mistake in `mistakes.cpp`.
const MISTAKES: [&str; 13] = [
    "T is not rcu-protectable",
    "T is not rcu-protectable",
    "T is not rcu-protectable",
    "T is not rcu-protectable",
    "the deleter cannot be moved",
    "of_long",
    "private",
    "protected",
    "integers of 64 bits",
    "slots are zeroed memory",
    "too large for a cache",
    "each object is retired by a new deleter",
    "private",
];

#[test]
fn cxx_mistakes_do_not_compile() {
    let compiler = |mistake: usize| {
        let mut command = Command::new("g++");
        command.args(["-std=c++17", "-fsyntax-only", &format!("-DMISTAKE={mistake}"), "-I"]);
        command.arg(here("include")).arg(here("tests/cxx/mistakes.cpp"));
        command
    };
    compile_with(&mut compiler(0));
    for (mistake, reason) in (1..).zip(MISTAKES) {
        let output = compiler(mistake).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let is_said = errors.lines().any(|line| line.contains("error:") && line.contains(reason));
        assert!(!output.status.success() && is_said, "mistake {mistake}: {errors}");
    }
}

#[test]
fn cxx_headers_alone_compile_without_a_warning() {
    for compiler in ["g++", "clang++"].into_iter().filter(|compiler| has(compiler)) {
        for header in ["sheaves/rcu", "sheaves/memory.hpp", "sheaves.hpp"] {
            for standard in ["c++17", "c++20"] {
                let mut command = Command::new(compiler);
                command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror"]).args(WARNINGS);
                command.args([&format!("-std={standard}"), "-x", "c++", "-include", header, "-I"]);
                command.arg(here("include"));
                compile_with(command.arg(Path::new("/dev/null")));
            }
        }
    }
}
