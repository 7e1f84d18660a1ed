//! Programs under sanitizers, and under valgrind where it is installed.

use core::time::Duration;
use std::path::Path;

use crate::programs::{EXAMPLE_FLAGS, EXAMPLES, RELOAD};
use crate::urcu::{C_OF_STRUCTURES, FLAVORS, LFHT, STRUCTURES};
use crate::urcu::{compile_for, flags_of, has_lfht, include, torture_ms};
use crate::{ENGINES, Link, compile, has, libraries, run, run_ok};
use crate::{cxx, several_at_a_time};

const LIMIT: Duration = Duration::from_secs(300);

/// A program that prints `ok`: compiler, source, flags of its own, argument.
type Program = (&'static str, &'static str, Vec<String>, Option<String>);

fn examples_and_cxx() -> impl Iterator<Item = Program> {
    let strings = |flags: &[&str]| flags.iter().map(|&flag| flag.into()).collect();
    let in_c = EXAMPLES.map(|source| ("gcc", source, strings(&EXAMPLE_FLAGS), None));
    let in_cxx = cxx::PROGRAMS.map(|source| ("g++", source, strings(&cxx::FLAGS), None));
    in_c.into_iter().chain(in_cxx)
}

/// Every program of this crate that prints `ok`, but for those that fork.
fn every_program(ms: &str) -> Vec<Program> {
    let mut programs = Vec::from_iter(examples_and_cxx());
    programs.push(("gcc", "tests/c_api/threads.c", vec![], None));
    programs.push(("gcc", "tests/urcu/flavors.c", vec![include()], None));
    programs.push(("gcc", STRUCTURES, vec![C_OF_STRUCTURES.into(), include()], None));
    for flavor in 0..FLAVORS.len() {
        programs.push(("gcc", "tests/urcu/torture.c", flags_of(flavor), Some(ms.into())));
    }
    if has_lfht() {
        programs.push(("gcc", LFHT, vec![include()], Some(ms.into())));
    }
    let library = libraries().join("libsheaves.so").into_os_string().into_string().unwrap();
    programs.push(("gcc", RELOAD, vec![], Some(library)));
    programs
}

/// The programs that fork.
fn forking_programs() -> impl Iterator<Item = Program> + Send {
    (0..FLAVORS.len()).map(|flavor| ("gcc", "tests/urcu/fork.c", flags_of(flavor), None))
}

/// Compiles and runs programs, two at a time, with more flags. Each is started by `run`.
fn run_all(
    programs: impl IntoIterator<Item = Program, IntoIter: Send>,
    flags: &[&str],
    run: impl Fn(&Path, Option<&str>) + Sync,
) {
    let failed = several_at_a_time::failed(2, programs, |(compiler, source, own, argument)| {
        let flags: Vec<_> = own.iter().map(String::as_str).chain(flags.iter().copied()).collect();
        let link = if source == RELOAD { Link::Archive } else { Link::Shared };
        run(&compile(compiler, source, &flags, link), argument.as_deref());
        Ok(())
    });
    assert!(failed.is_empty());
}

/// Optimised less, which compiles in half the time.
const SANITIZERS: [&str; 3] = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
/// A child of fork may inherit the locks of AddressSanitizer's allocator held by a thread that it
/// does not have, and waits for them for ever in `malloc`: one run in sixty with gcc 12.
const WITHOUT_ALLOCATOR: [&str; 2] = ["-fsanitize=undefined", "-fno-sanitize-recover=all"];

#[test]
fn sanitizers_find_nothing() {
    let run = |program: &Path, argument: Option<&str>| {
        run_ok(program, argument.as_slice(), &[], LIMIT);
    };
    run_all(every_program(&torture_ms()), &SANITIZERS, run);
    run_all(forking_programs(), &WITHOUT_ALLOCATOR, run);
}

/// It maps its own memory nearly everywhere, and knows nothing of what orders threads in the
/// library but what the headers tell it.
const THREAD_SANITIZER: [&str; 2] = ["-O1", "-fsanitize=thread"];
/// At the end it would wait a second for threads that still run.
const AT_ONCE: (&str, &str) = ("TSAN_OPTIONS", "atexit_sleep_ms=0");

#[test]
fn thread_sanitizer_finds_no_race() {
    let run = |program: &Path, argument: Option<&str>| {
        for engine in ENGINES {
            run_ok(program, argument.as_slice(), &[engine, &[AT_ONCE]].concat(), LIMIT);
        }
    };
    run_all(examples_and_cxx(), &THREAD_SANITIZER, run);
    for link in [Link::Shared, Link::Archive] {
        run(&compile("gcc", "tests/c_api/threads.c", &THREAD_SANITIZER, link), None);
    }
    for flavor in 0..FLAVORS.len() {
        run(&compile_for("tests/urcu/torture.c", flavor, &THREAD_SANITIZER), Some(&torture_ms()));
    }
}

/// What it is told about the library hides no race of the program.
#[test]
fn thread_sanitizer_finds_a_race() {
    let flags = ["-DRACE", THREAD_SANITIZER[1]];
    let program = compile("gcc", "tests/c_api/threads.c", &flags, Link::Shared);
    let flags = ["-DWITHOUT_READERS", THREAD_SANITIZER[1]];
    let readers = compile_for("tests/urcu/torture.c", 0, &flags);
    for (program, place) in [(program, "in work"), (readers, "#0 read_on")] {
        for engine in ENGINES {
            let output = run(&program, &[], &[engine, &[AT_ONCE]].concat(), LIMIT);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(errors.contains("data race") && errors.contains(place), "{output:?}");
            assert_eq!(output.status.code(), Some(66), "{output:?}");
        }
    }
}

/// A fair scheduler: otherwise one thread may starve the others. libc's cleanup is off, because a
/// child of fork may find its locks held by threads that do not exist there. The operators of
/// `sheaves/new.hpp` are not replaced.
const VALGRIND: [&str; 9] = [
    "-q",
    "--error-exitcode=9",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite,indirect",
    "--show-leak-kinds=definite,indirect",
    "--fair-sched=yes",
    "--read-inline-info=no",
    "--run-libc-freeres=no",
    "--soname-synonyms=somalloc=nouserintercepts",
];

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    if !has("valgrind") {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    // Threads run one at a time: within 2 s each kind of updater runs, and 200 times each reader of
    // the example has its turn before the writer.
    let programs = every_program("2000").into_iter().chain(forking_programs());
    // Operators are called: more optimised, they are inlined, and valgrind replaces no call.
    run_all(programs, &["-O1", "-DHOPS=200"], |program, argument| {
        let mut args = VALGRIND.to_vec();
        args.push(program.to_str().unwrap());
        args.extend(argument);
        // The second variable tells the program.
        let variables = [("SHEAVES_ENGINE", "portable"), ("ON_VALGRIND", "1")];
        run_ok(Path::new("valgrind"), &args, &variables, LIMIT);
    });
}

#[test]
fn leak_and_overflow_are_found() {
    for defect in ["-DLEAK", "-DOVERFLOW"] {
        let flags = [&SANITIZERS[..], &[defect]].concat();
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
fn costs_are_printed() {
    let flags = [&include(), "-DSECTIONS=400000L", "-DNODES=10000L"];
    let program = compile("gcc", "tests/urcu/cost.c", &flags, Link::Shared);
    let output = run(&program, &[], &[], LIMIT);
    let text = String::from_utf8(output.stdout).unwrap();
    let figures: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    assert!(figures.is_ok_and(|ns| ns.len() == 4 && ns.iter().all(|ns| *ns > 0.0)), "{text}");
}
