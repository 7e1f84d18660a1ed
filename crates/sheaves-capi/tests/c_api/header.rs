//! The header alone, under compilers and standards.

use std::path::Path;
use std::process::Command;

use crate::{compile_with, has, here};

const C: [&str; 2] = ["c99", "c11"];
const CXX: [&str; 2] = ["c++17", "c++20"];

#[test]
fn header_alone_compiles_without_a_warning() {
    for (compiler, cxx) in [("gcc", "g++"), ("clang", "clang++")] {
        if !has(compiler) || !has(cxx) {
            eprintln!("skipped: there is no {compiler}");
            continue;
        }
        for (program, standards, language) in [(compiler, C, "c"), (cxx, CXX, "c++")] {
            for standard in standards {
                for inlining in ["-DSHEAVES_INLINE", "-DSHEAVES_NO_INLINE"] {
                    compile_alone(program, standard, language, inlining);
                }
            }
        }
    }
}

fn compile_alone(compiler: &str, standard: &str, language: &str, inlining: &str) {
    let object = format!("header-{compiler}-{standard}{inlining}.o");
    let mut command = Command::new(compiler);
    command.args(["-c", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", inlining]);
    command.args([&format!("-std={standard}"), "-x", language, "-I"]).arg(here("include"));
    command.arg(here("tests/c_api/alone.c")).arg("-o");
    compile_with(command.arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join(object)));
}
