//! The header alone, with every compiler and standard.

use std::path::Path;
use std::process::Command;

use crate::{compile_with, has, here, language_of, standards_of};

#[test]
fn header_alone_compiles_without_a_warning() {
    for compiler in ["gcc", "clang", "g++", "clang++"] {
        for standard in standards_of(compiler) {
            for inlining in ["-DSHEAVES_INLINE", "-DSHEAVES_NO_INLINE"] {
                compile_alone(compiler, standard, inlining);
            }
        }
    }
}

/// Compiles the header for another machine, without that system's headers.
fn compile_for(machine: &str) -> Option<bool> {
    let mut clang = Command::new("clang");
    clang.args([&format!("--target={machine}"), "-ffreestanding", "-fsyntax-only", "-std=c99"]);
    clang.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-I"]).arg(here("include"));
    clang.arg(here("tests/c_api/elsewhere.c")).output().ok().map(|output| output.status.success())
}

#[test]
fn header_compiles_or_refuses_on_other_machines() {
    if !has("clang") {
        eprintln!("skipped: clang is not installed");
        return;
    }
    for (machine, compiles) in [
        ("x86_64-linux-gnu", false),
        ("aarch64-linux-gnu", false),
        ("riscv64-linux-gnu", true),
        ("x86_64-linux-gnux32", false),
        ("i386-linux-gnu", false),
        ("aarch64-unknown-freebsd", false),
    ] {
        assert_eq!(compile_for(machine), Some(compiles), "{machine}");
    }
}

/// It is compiled only.
#[test]
fn layouts_are_the_documented_ones() {
    let mut command = Command::new("gcc");
    command.args(["-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I"]);
    compile_with(command.arg(here("include")).arg(here("tests/c_api/layouts.c")));
}

fn compile_alone(compiler: &str, standard: &str, inlining: &str) {
    let object = format!("header-{compiler}{standard}{inlining}.o");
    let mut command = Command::new(compiler);
    command.args(["-c", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", inlining, standard]);
    command.args(["-x", language_of(compiler), "-I"]).arg(here("include"));
    command.arg(here("tests/c_api/alone.c")).arg("-o");
    compile_with(command.arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join(object)));
}
