//! The command line of `sheaves torture`, one subcommand for each subject.

use core::fmt::Display;
use core::time::Duration;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use clap::{Args as ClapArgs, Subcommand};
use serde::Serialize;

use crate::{rcu, reclaim};

/// Exit status when the report cannot be written, as `EX_IOERR` of `sysexits.h`.
const OUTPUT: u8 = 74;

/// Stress-test a subsystem and report violations.
#[derive(Clone, Debug, ClapArgs)]
#[command(
    after_help = "Exit status: 0 when there was no violation; 1 when there was, with a line on \
                  stderr for each; 2 when the run could not begin; 3 when it found no violation, \
                  but did not reach every event that it is for, with a line on stderr for each; \
                  74 when there was none, but the report cannot be written."
)]
pub struct Args {
    /// The subsystem to test.
    #[command(subcommand)]
    pub subject: Subject,
}

/// The subsystems.
#[derive(Clone, Debug, Subcommand)]
pub enum Subject {
    /// Readers and updaters of every kind at once: is a grace period ever too short?
    Rcu(RcuArgs),
    /// Readers beside deferred frees on every path: is an object freed too early, twice, or never?
    Reclaim(ReclaimArgs),
}

/// Options of every run.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct RunArgs {
    /// Seconds to run.
    #[arg(long, value_name = "S", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Options of `sheaves torture rcu`.
#[derive(Clone, Debug, ClapArgs)]
pub struct RcuArgs {
    /// The options of every run.
    #[command(flatten)]
    pub run: RunArgs,

    /// Have one reader stay in its section until the stall is reported.
    #[arg(long)]
    pub leak: bool,

    /// Make a mistake on purpose: the run has to find it and to fail.
    #[arg(long, value_name = "VARIANT")]
    pub broken: Option<rcu::Broken>,
}

/// Options of `sheaves torture reclaim`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ReclaimArgs {
    /// The options of every run.
    #[command(flatten)]
    pub run: RunArgs,

    /// Have one of N requests for memory fail, 0 for none.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub fail_one_in: u32,

    /// Make a mistake on purpose: the run has to find it and to fail.
    #[arg(long, value_name = "VARIANT")]
    pub broken: Option<reclaim::Broken>,
}

/// Runs the command.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    match &args.subject {
        Subject::Rcu(args) => {
            let options = rcu::Options {
                duration: Duration::from_secs(args.run.seconds),
                broken: args.broken,
                leak: args.leak,
            };
            let report = rcu::run(&options);
            print(
                "rcu",
                args.run.json,
                report.map(|report| ([report.failures.clone(), report.missed.clone()], report)),
            )
        }
        Subject::Reclaim(args) => {
            let options = reclaim::Options {
                duration: Duration::from_secs(args.run.seconds),
                broken: args.broken,
                fail_one_in: args.fail_one_in,
            };
            let report = reclaim::run(&options);
            print(
                "reclaim",
                args.run.json,
                report.map(|report| ([report.failures.clone(), report.missed.clone()], report)),
            )
        }
    }
}

/// Prints a report, with its failures and with what it missed.
fn print<R: Display + Serialize>(
    subject: &str,
    is_json: bool,
    found: Result<([Vec<String>; 2], R), String>,
) -> ExitCode {
    let ([failures, missed], report) = match found {
        Ok(found) => found,
        Err(line) => {
            say(subject, &line);
            return ExitCode::from(2);
        }
    };
    let text = if is_json {
        serde_json::to_string(&report).expect("numbers and words") + "\n"
    } else {
        report.to_string()
    };
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    // A reader that closes the pipe early is no failure.
    let lost = written.err().filter(|error| error.kind() != ErrorKind::BrokenPipe);
    failures.iter().for_each(|failure| say(subject, &format!("FAILED: {failure}")));
    missed.iter().for_each(|event| say(subject, &format!("INCOMPLETE: {event}")));
    if let Some(error) = &lost {
        say(subject, &format!("cannot write to stdout: {error}"));
    }
    match status(&failures, &missed) {
        0 if lost.is_some() => ExitCode::from(OUTPUT),
        status => ExitCode::from(status),
    }
}

/// Prints a line to stderr, if that takes it: the exit status says the same.
fn say(subject: &str, line: &str) {
    let _ = writeln!(io::stderr().lock(), "sheaves: torture {subject}: {line}");
}

/// The exit status of a run that came to its end.
fn status(failures: &[String], missed: &[String]) -> u8 {
    match (failures, missed) {
        ([], []) => 0,
        ([], _) => 3,
        _ => 1,
    }
}

#[cfg(test)]
#[path = "../tests/unit/cli.rs"]
mod tests;
