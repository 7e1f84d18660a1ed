//! `sheaves-bench`: see the library for what is measured and how.

use std::process::ExitCode;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "sheaves-bench", version, about)]
struct Command {
    #[command(flatten)]
    args: sheaves_bench::cli::Args,
}

fn main() -> ExitCode {
    sheaves_bench::cli::run(&Command::parse().args)
}
