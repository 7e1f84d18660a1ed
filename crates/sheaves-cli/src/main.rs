//! The command `sheaves`: runs programs on Sheaves, examines the machine, runs the benchmarks.
//!
//! Start reading at [`command_line`], which defines every option; each subcommand is one module.
//! Nothing here needs unsafe code: facts about the system come from `/proc`, from ELF files and
//! from the greeting that the preload object sends (module [`hello`]).
#![forbid(unsafe_code)]

extern crate alloc;

mod command_line;
mod doctor;
mod elf;
mod hello;
mod pages;
mod preload;
mod prof;
mod refusal;
mod run;

use std::process::ExitCode;

use clap::Parser as _;
use command_line::{Arguments, Subcommand};
use refusal::Refusal;
use sheaves_bench::cli as bench;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.subcommand {
        // A newcomer's first command is `cargo run --release`: it shows the benchmarks.
        None => bench::run(&bench::Args { quick: true, ..bench::Args::default() }),
        Some(Subcommand::Bench(options)) => bench::run(&options),
        Some(Subcommand::Torture(options)) => sheaves_torture::cli::run(&options),
        Some(Subcommand::Run(options)) => run::run(&options).unwrap_or_else(refuse),
        Some(Subcommand::Prof { command }) => prof::run(&command).unwrap_or_else(refuse),
        Some(Subcommand::Doctor(options)) => doctor::doctor(&options),
        Some(Subcommand::Completions { shell }) => pages::completions(shell),
        Some(Subcommand::Man { directory }) => pages::man(directory.as_deref()),
    }
}

/// One line on stderr, and the exit status.
fn refuse(refusal: Refusal) -> ExitCode {
    eprintln!("sheaves: {}", refusal.line);
    ExitCode::from(refusal.status)
}
