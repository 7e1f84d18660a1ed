//! Programs under sanitizers, and under valgrind where it is installed.

use core::time::Duration;
use std::path::{Path, PathBuf};

use crate::urcu::{FLAVORS, STRUCTURES, compile_for, compile_lfht, include, torture_ms};
use crate::{ENGINES, Link, compile, has, here, libraries, run, run_ok};
use crate::{cxx, several_at_a_time};

const LIMIT: Duration = Duration::from_secs(300);
const EXAMPLES: [&str; 7] = ["cache", "calls", "memory", "percpu", "rcu", "srcu", "statistics"];

/// Every program of this crate that prints `ok`, but for those that fork, with its argument.
fn every_program(flags: &[&str], ms: &str) -> Vec<(PathBuf, Option<String>)> {
    let mut programs = Vec::new();
    for name in EXAMPLES {
        let source = format!("examples/{name}.c");
        programs.push((compile("gcc", &source, flags, Link::Shared), None));
    }
    let flags_of_cxx: Vec<_> = ["-std=c++17"].iter().chain(flags).copied().collect();
    for source in cxx::PROGRAMS {
        programs.push((compile("g++", source, &flags_of_cxx, Link::Shared), None));
    }
    programs.push((compile("gcc", "tests/c_api/threads.c", flags, Link::Shared), None));
    let include = include();
    let flags_of_urcu: Vec<_> = [include.as_str()].iter().chain(flags).copied().collect();
    let flavors = compile("gcc", "tests/urcu/flavors.c", &flags_of_urcu, Link::Shared);
    programs.push((flavors, None));
    programs.push((compile("gcc", STRUCTURES, &flags_of_urcu, Link::Shared), None));
    for flavor in 0..FLAVORS.len() {
        programs.push((compile_for("tests/urcu/torture.c", flavor, flags), Some(ms.into())));
    }
    programs.extend(compile_lfht(flags).map(|table| (table, Some(ms.into()))));
    let reload = compile("gcc", "tests/c_api/reload.c", flags, Link::Archive);
    let library = libraries().join("libsheaves.so");
    programs.push((reload, Some(library.to_str().unwrap().into())));
    programs
}

/// The programs that fork.
fn forking_programs(flags: &[&str]) -> impl Iterator<Item = (PathBuf, Option<String>)> {
    (0..FLAVORS.len()).map(|flavor| (compile_for("tests/urcu/fork.c", flavor, flags), None))
}

const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
/// A child of fork may inherit the locks of AddressSanitizer's allocator held by a thread that it
/// does not have, and waits for them for ever in `malloc`: one run in sixty with gcc 12.
const WITHOUT_ALLOCATOR: [&str; 2] = ["-fsanitize=undefined", "-fno-sanitize-recover=all"];

#[test]
fn sanitizers_find_nothing() {
    let programs = every_program(&SANITIZERS, &torture_ms());
    for (program, argument) in programs.into_iter().chain(forking_programs(&WITHOUT_ALLOCATOR)) {
        run_ok(&program, argument.as_deref().as_slice(), &[], LIMIT);
    }
}

/// It maps its own memory nearly everywhere, and knows nothing of what orders threads in the
/// library. Not the programs for liburcu, whose headers do not tell it.
const THREAD_SANITIZER: [&str; 1] = ["-fsanitize=thread"];

#[test]
fn thread_sanitizer_finds_no_race() {
    let mut programs = Vec::from_iter(EXAMPLES.map(|name| {
        compile("gcc", &format!("examples/{name}.c"), &THREAD_SANITIZER, Link::Shared)
    }));
    let flags = ["-std=c++17", THREAD_SANITIZER[0]];
    programs.extend(cxx::PROGRAMS.map(|source| compile("g++", source, &flags, Link::Shared)));
    for link in [Link::Shared, Link::Archive] {
        programs.push(compile("gcc", "tests/c_api/threads.c", &THREAD_SANITIZER, link));
    }
    for program in programs {
        for engine in ENGINES {
            run_ok(&program, &[], engine, LIMIT);
        }
    }
}

/// What it is told about the library hides no race of the program.
#[test]
fn thread_sanitizer_finds_a_race() {
    let flags = ["-DRACE", THREAD_SANITIZER[0]];
    let program = compile("gcc", "tests/c_api/threads.c", &flags, Link::Shared);
    for engine in ENGINES {
        let output = run(&program, &[], engine, LIMIT);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("data race") && errors.contains("in work"), "{output:?}");
        assert_eq!(output.status.code(), Some(66), "{output:?}");
    }
}

/// A fair scheduler: otherwise one thread may starve the others. libc's cleanup is off, because a
/// child of fork may find its locks held by threads that do not exist there.
const VALGRIND: [&str; 7] = [
    "-q",
    "--error-exitcode=9",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite,indirect",
    "--show-leak-kinds=definite,indirect",
    "--fair-sched=yes",
    "--run-libc-freeres=no",
];

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    if !has("valgrind") {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    // The definition gives these programs names of their own, which no other test writes. Threads
    // run one at a time: within 2 s each kind of updater runs.
    let flags = ["-DVALGRIND"];
    let programs = every_program(&flags, "2000").into_iter().chain(forking_programs(&flags));
    let failed = several_at_a_time::failed(2, programs, |(program, argument)| {
        let mut args = VALGRIND.to_vec();
        args.push(program.to_str().unwrap());
        args.extend(argument.as_deref());
        run_ok(Path::new("valgrind"), &args, &[("SHEAVES_ENGINE", "portable")], LIMIT);
        Ok(())
    });
    assert!(failed.is_empty());
}

#[test]
fn leak_and_overflow_are_found() {
    for defect in ["-DLEAK", "-DOVERFLOW"] {
        let flags = [SANITIZERS[0], SANITIZERS[1], defect];
        let program = compile("gcc", "tests/c_api/mistakes.c", &flags, Link::Shared);
        let output = run(&program, &[], &[], LIMIT);
        assert!(!output.status.success(), "{defect} under sanitizers: {output:?}");
        if has("valgrind") {
            let program = compile("gcc", "tests/c_api/mistakes.c", &[defect], Link::Shared);
            let mut args = VALGRIND.to_vec();
            args.push(program.to_str().unwrap());
            let portable = [("SHEAVES_ENGINE", "portable")];
            let output = run(Path::new("valgrind"), &args, &portable, LIMIT);
            assert_eq!(output.status.code(), Some(9), "{defect} under valgrind: {output:?}");
        }
    }
}

#[test]
fn cost_of_readers_is_printed() {
    let include = format!("-I{}", here("include/sheaves-urcu").display());
    let program = compile("gcc", "tests/urcu/read_cost.c", &[&include], Link::Shared);
    let output = run(&program, &["1"], &[], LIMIT);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.trim().parse::<f64>().is_ok_and(|ns| ns > 0.0), "{text}");
}
