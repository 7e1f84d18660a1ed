//! The command `sheaves`: runs programs on Sheaves, examines the machine, runs the benchmarks.
//!
//! Start reading at [`command_line`], which defines every option; each subcommand is one module.
//! But for `run/inherited.rs`, nothing here needs unsafe code: facts about the machine come from
//! `/proc`, from ELF files, from the greeting that the preload object sends (module [`hello`]), and
//! from the answers of running processes (module [`ask`]).
#![deny(unsafe_code)]

extern crate alloc;

mod ask;
mod command_line;
mod complete;
mod doctor;
mod elf;
mod export;
mod guard;
mod hello;
mod inspect;
mod notes;
mod output;
mod pages;
mod preload;
mod prof;
mod rcu;
mod refusal;
mod run;
mod stat;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use clap_complete::CompleteEnv;
use command_line::{Arguments, Subcommand};
use sheaves_bench::cli as bench;

fn main() -> ExitCode {
    CompleteEnv::with_factory(Arguments::command).var(complete::VARIABLE).complete();
    let arguments = Arguments::parse();
    match arguments.subcommand {
        None => or_refuse(output::print(&Arguments::command().render_help().to_string())),
        // A newcomer's first command: it shows the benchmarks.
        Some(Subcommand::Demo) => {
            bench::run(&bench::Args { quick: true, ..bench::Args::default() })
        }
        Some(Subcommand::Bench(options)) => bench::run(&options),
        Some(Subcommand::Torture(options)) => sheaves_torture::cli::run(&options),
        Some(Subcommand::Run(options)) => or_refuse(run::run(&options)),
        Some(Subcommand::Stat(options)) => or_refuse(stat::stat(&options)),
        Some(Subcommand::Top(options)) => or_refuse(top::top(&options)),
        Some(Subcommand::Export(options)) => or_refuse(export::export(&options)),
        Some(Subcommand::Rcu(options)) => or_refuse(rcu::rcu(&options)),
        Some(Subcommand::Prof { command }) => or_refuse(prof::run(&command)),
        Some(Subcommand::Guard { command }) => or_refuse(guard::run(&command)),
        Some(Subcommand::Inspect(options)) => or_refuse(inspect::inspect(&options)),
        Some(Subcommand::Doctor(options)) => or_refuse(doctor::doctor(&options)),
        Some(Subcommand::Completions { shell }) => or_refuse(pages::completions(shell)),
        Some(Subcommand::Man { directory }) => or_refuse(pages::man(directory.as_deref())),
    }
}

/// The exit status of a command, or of its refusal, whose line goes to stderr.
fn or_refuse(done: Result<ExitCode, refusal::Refusal>) -> ExitCode {
    done.unwrap_or_else(|refusal| {
        output::say(&refusal.line);
        ExitCode::from(refusal.status)
    })
}
