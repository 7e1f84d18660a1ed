//! The preload object from outside: its symbols, and C and C++ programs that run on it.
//!
//! The programs are compiled here and print nothing on success. Each runs in several
//! configurations. `SHEAVES_FORKS` is the number of forks of the forking program (default 500).

mod atfork;
mod c_programs;
mod deepbind;
mod glibc;
mod guard;
#[cfg(target_arch = "x86_64")]
mod notes;
mod options;
#[cfg(target_arch = "x86_64")]
mod probes;
mod programs;
mod stacks;
mod symbols;

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;

use c_programs::{check, compile_to, object, run_within};

/// Compiles a program whose source is in this folder.
fn compile(compiler: &str, source: &str) -> PathBuf {
    compile_as(compiler, source, &[])
}

/// Compiles it with additional flags.
fn compile_as(compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
    let name = format!("{source}{}", flags.concat()).replace(['.', '/'], "-");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-g", "-Wall", "-Werror", "-fno-builtin", "-pthread"]);
    command.args(flags);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload").join(source));
    compile_to(&program, &mut command);
    program
}

/// A program with the object preloaded.
fn on_object(program: &Path, args: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env("LD_PRELOAD", object()).envs(variables.iter().copied());
    command
}

/// Runs a program, which must print nothing.
fn run_silent(program: &Path, args: &[&str], variables: &[(&str, &str)], limit: Duration) {
    let mut command = on_object(program, args, variables);
    let output = run_within(limit, &mut command);
    check(&command, &output, |text, errors| text.is_empty() && errors.is_empty());
}
