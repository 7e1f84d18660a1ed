//! The command line of `sheaves torture`, one subcommand for each subject.

use core::time::Duration;
use std::process::ExitCode;

use clap::{Args as ClapArgs, Subcommand};

use crate::rcu;

/// Torture a part of Sheaves, and tell whether it withstood.
#[derive(Clone, Debug, ClapArgs)]
#[command(
    after_help = "Exit status: 0 when nothing happened that must not; 1 when it did, with a \
                        line on stderr for each thing; 2 when the run could not begin."
)]
pub struct Args {
    /// What to torture.
    #[command(subcommand)]
    pub subject: Subject,
}

/// What can be tortured.
#[derive(Clone, Debug, Subcommand)]
pub enum Subject {
    /// Readers of every kind beside updaters of every kind: does any reader outlast its grace
    /// period?
    Rcu(RcuArgs),
}

/// Options of `sheaves torture rcu`.
#[derive(Clone, Debug, ClapArgs)]
pub struct RcuArgs {
    /// How long to go on.
    #[arg(long, value_name = "S", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,

    /// Have one reader stay in its section until that is reported.
    #[arg(long)]
    pub leak: bool,

    /// Make a mistake on purpose: the run has to find it, and to fail.
    #[arg(long, value_name = "VARIANT")]
    pub broken: Option<rcu::Broken>,
}

/// Does what the command line asks for.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let Subject::Rcu(args) = &args.subject;
    let options = rcu::Options {
        duration: Duration::from_secs(args.seconds),
        broken: args.broken,
        leak: args.leak,
    };
    let report = match rcu::run(&options) {
        Ok(report) => report,
        Err(line) => {
            eprintln!("sheaves: torture rcu: {line}");
            return ExitCode::from(2);
        }
    };
    if args.json {
        println!("{}", serde_json::to_string(&report).expect("numbers and words"));
    } else {
        print!("{report}");
    }
    for failure in &report.failures {
        eprintln!("sheaves: torture rcu: FAILED: {failure}");
    }
    ExitCode::from(u8::from(!report.passed()))
}
