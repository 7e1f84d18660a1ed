//! The C API from outside: its header, its symbols, and C and C++ programs that run on it.
//!
//! Programs are compiled here and print `ok` on success. Each runs linked to the shared object and
//! to the archive, on every engine. gcc is required; tests that need clang are skipped with a line
//! if it is missing.

#[path = "../../../sheaves-preload/tests/preload/c_programs.rs"]
mod c_programs;
mod checked;
mod cxx;
mod guard;
#[cfg(target_arch = "x86_64")]
mod handlers;
mod header;
#[cfg(target_arch = "x86_64")]
#[path = "../../../sheaves-preload/tests/preload/notes.rs"]
mod notes;
mod options;
mod programs;
#[path = "../../../sheaves-percpu/tests/transactions/several_at_a_time.rs"]
mod several_at_a_time;
#[cfg(target_arch = "x86_64")]
mod stalls;
mod symbols;
mod urcu;

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use c_programs::{build, check, compile_to, compile_with, run_within};

/// The folder with `libsheaves.so` and `libsheaves.a`, built with the profile of this test.
fn libraries() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let directory = build("sheaves-capi");
        // The loader searches for this name.
        let _ = std::os::unix::fs::symlink("libsheaves.so", directory.join("libsheaves.so.0"));
        directory
    })
}

/// A path in this crate.
fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// How a program is linked to the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Shared,
    Archive,
}

/// Compiles a program of this crate, unless another test has. `flags` follow the common flags.
fn compile(compiler: &str, source: &str, flags: &[&str], link: Link) -> PathBuf {
    static PROGRAMS: Mutex<BTreeMap<PathBuf, Arc<OnceLock<()>>>> = Mutex::new(BTreeMap::new());
    let name = format!("{compiler}-{source}-{link:?}-{}", flags.concat())
        .replace(['.', '/', '=', '<', '>', ','], "-");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Arc::clone(PROGRAMS.lock().unwrap().entry(program.clone()).or_default());
    compiled.get_or_init(|| compile_to(&program, &mut compiler_of(compiler, source, flags, link)));
    program
}

fn compiler_of(compiler: &str, source: &str, flags: &[&str], link: Link) -> Command {
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    command.arg(here("include")).args(flags).arg(here(source));
    match link {
        Link::Shared => {
            command.arg("-L").arg(libraries()).arg("-lsheaves");
            command.arg(format!("-Wl,-rpath,{}", libraries().display()));
        }
        Link::Archive => {
            // Without the archive's lines, which take the linker longest.
            command.arg(libraries().join("libsheaves.a")).args(["-ldl", "-lm", "-Wl,-S"]);
        }
    }
    if source == urcu::LFHT {
        command.arg("-lurcu-cds");
    }
    command
}

/// Runs a program. Panics when it takes longer than `limit`.
fn run(program: &Path, args: &[&str], variables: &[(&str, &str)], limit: Duration) -> Output {
    run_within(limit, Command::new(program).args(args).envs(variables.iter().copied()))
}

/// Runs a program, which must print `ok`.
fn run_ok(program: &Path, args: &[&str], variables: &[(&str, &str)], limit: Duration) {
    let mut command = Command::new(program);
    command.args(args).envs(variables.iter().copied());
    let output = run_within(limit, &mut command);
    check(&command, &output, |text, _| text.lines().last() == Some("ok"));
}

/// The engines, as environment variables.
const ENGINES: [&[(&str, &str)]; 3] = [
    &[],
    &[("SHEAVES_ENGINE", "rseq-cpu")],
    &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
];

/// What a compiler compiles.
fn language_of(compiler: &str) -> &'static str {
    if compiler.ends_with("++") { "c++" } else { "c" }
}

/// The standards that a compiler knows, by the names that old and new ones know. None if it is not
/// installed.
fn standards_of(compiler: &str) -> Vec<&'static str> {
    let language = language_of(compiler);
    let standards = match language {
        "c" => ["-std=c99", "-std=c11", "-std=c17", "-std=c2x"],
        _ => ["-std=c++17", "-std=c++20", "-std=c++2b", "-std=c++2c"],
    };
    if !has(compiler) {
        eprintln!("skipped: {compiler} is not installed");
        return Vec::new();
    }
    let is_known = |standard: &&str| {
        let mut command = Command::new(compiler);
        command.args(["-fsyntax-only", "-x", language, standard, "/dev/null"]);
        command.output().unwrap().status.success()
    };
    let known = Vec::from_iter(standards.into_iter().filter(is_known));
    assert!(known.len() >= 3, "{compiler} knows only {known:?}");
    known
}

/// True when a program is installed.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok()
}
