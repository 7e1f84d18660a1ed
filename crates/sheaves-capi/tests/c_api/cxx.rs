//! The C++ headers: the paragraphs of the standard, the classes, and what must not compile.

use core::time::Duration;
use std::path::Path;
use std::process::Command;

use crate::{ENGINES, Link, compile, compile_with, has, here, run_ok, standards_of};

const LIMIT: Duration = Duration::from_secs(120);
/// The tests that are written in C++.
const TESTS: &str = "tests/cxx/rcu.cpp";
/// The operators of `sheaves/new.hpp`.
const NEW: &str = "tests/cxx/new.cpp";
/// Programs in C++, each of which prints `ok`.
pub(crate) const PROGRAMS: [&str; 4] =
    ["examples/containers.cpp", "examples/retire.cpp", NEW, TESTS];
/// The first standard, with more warnings than others.
pub(crate) const FLAGS: [&str; 4] = ["-std=c++17", "-Wpedantic", "-Wconversion", "-Wshadow"];

#[test]
fn cxx_programs_run_on_every_engine() {
    for (source, link) in PROGRAMS.into_iter().zip([Link::Shared, Link::Archive].repeat(2)) {
        let program = compile("g++", source, &FLAGS, link);
        for engine in ENGINES {
            run_ok(&program, &[], engine, LIMIT);
        }
    }
}

/// The block of an operator that another replaces is not taken for one of this heap.
#[test]
fn cxx_operators_of_the_program_are_called() {
    let flags = [&FLAGS[..], &["-shared", "-fPIC", "-xc++"]].concat();
    let library = compile("g++", "include/sheaves/new.hpp", &flags, Link::Shared);
    for replaced in ["-DREPLACED=1", "-DREPLACED=2"] {
        let more = [replaced, "-Wl,--no-as-needed", library.to_str().unwrap()];
        let program = compile("g++", NEW, &[&FLAGS[..], &more].concat(), Link::Shared);
        run_ok(&program, &[], &[], LIMIT);
    }
}

/// All compile in each standard that each of the compilers knows. The first is run with the least
/// of the language, and the newest with the names in `std`.
#[test]
fn cxx_tests_run_in_every_standard_and_dialect() {
    let smallest =
        ["-fno-exceptions", "-fno-rtti", "-DSHEAVES_NO_INLINE", "-fvisibility=hidden", "-O0"];
    for compiler in ["g++", "clang++"] {
        let standards = standards_of(compiler);
        for standard in &standards {
            for source in [TESTS, NEW] {
                syntax_of(compiler, &[&FLAGS[1..], &[standard]].concat(), &here(source));
            }
        }
        let (Some(first), Some(newest)) = (standards.first(), standards.last()) else { continue };
        for (standard, more) in [(first, &smallest[..]), (newest, &["-DAS_STANDARD"])] {
            let flags = [&FLAGS[1..], &[standard], more].concat();
            run_ok(&compile(compiler, TESTS, &flags, Link::Shared), &[], &[], LIMIT);
        }
    }
}

/// Compiles without output and without a warning.
fn syntax_of(compiler: &str, flags: &[&str], source: &Path) {
    let mut command = Command::new(compiler);
    command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I"]).arg(here("include"));
    compile_with(command.args(flags).arg(source));
}

/// Each line of `mistakes.cpp` that says so is refused, with the text that it says.
#[test]
fn cxx_mistakes_do_not_compile() {
    const SOURCE: &str = "tests/cxx/mistakes.cpp";
    syntax_of("g++", &["-std=c++17"], &here(SOURCE));
    let mut command = Command::new("g++");
    command.args(["-std=c++17", "-fsyntax-only", "-DMISTAKES", "-I"]).arg(here("include"));
    let output = command.arg(SOURCE).current_dir(here("")).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    // An error in a header comes after the line of the source that it was required from.
    let (mut found, mut line) = (Vec::new(), 0);
    for text in errors.lines().filter(|text| !text.starts_with(' ')) {
        if let Some((_, rest)) = text.split_once(&format!("{SOURCE}:")) {
            line = rest.split(':').next().and_then(|number| number.parse().ok()).unwrap_or(line);
        }
        found.extend(text.split_once("error: ").map(|(_, what)| (line, what)));
    }
    let source = std::fs::read_to_string(here(SOURCE)).unwrap();
    for (number, text) in (1..).zip(source.lines()) {
        let Some((_, wanted)) = text.split_once("// error: ") else { continue };
        let is_said = found.iter().any(|(line, what)| *line == number && what.contains(wanted));
        assert!(is_said, "line {number}: {text}: {errors}");
    }
    assert!(source.matches("// error: ").count() >= 20);
}

/// The programs include them in the other standards.
#[test]
fn cxx_headers_alone_compile_without_a_warning() {
    for compiler in ["g++", "clang++"].into_iter().filter(|compiler| has(compiler)) {
        for header in ["sheaves/rcu", "sheaves/memory.hpp", "sheaves/new.hpp", "sheaves.hpp"] {
            let flags = [&FLAGS[..], &["-x", "c++", "-include", header]].concat();
            syntax_of(compiler, &flags, Path::new("/dev/null"));
        }
    }
}

/// A section costs what it does in C. Behind that, clang ends the program where a slow path throws.
#[test]
fn cxx_readers_have_the_instructions_of_c() {
    for (compiler, cxx) in [("gcc", "g++"), ("clang", "clang++")] {
        if !has(cxx) || !has("objdump") {
            eprintln!("skipped: {cxx} or objdump is not installed");
            continue;
        }
        let in_c = instructions_of_a_section(compiler, &["-std=gnu99"]);
        let in_cxx = instructions_of_a_section(cxx, &["-std=c++17", "-xc++"]);
        assert!(in_c.len() > 10, "{compiler}: {in_c:?}");
        assert!(in_cxx.starts_with(&in_c), "{cxx}: {in_cxx:?}, and in C {in_c:?}");
        assert!(cxx != "g++" || in_cxx.len() == in_c.len(), "{in_cxx:?}");
    }
}

/// The names of the instructions of `read_section`.
fn instructions_of_a_section(compiler: &str, flags: &[&str]) -> Vec<String> {
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("section-{compiler}.o"));
    let mut command = Command::new(compiler);
    command.args(["-O2", "-c"]).args(flags).arg("-I").arg(here("include"));
    compile_with(command.arg(here("tests/cxx/section.c")).arg("-o").arg(&object));
    let mut command = Command::new("objdump");
    command.args(["-d", "--no-show-raw-insn", "--disassemble=read_section"]).arg(object);
    let listing = String::from_utf8(command.output().unwrap().stdout).unwrap();
    // ADDRESS:\tNAME OPERANDS
    let lines = listing.lines().filter_map(|line| line.split_once(":\t"));
    lines.filter_map(|(_, text)| text.split_whitespace().next().map(str::to_owned)).collect()
}
