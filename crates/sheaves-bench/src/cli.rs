//! The command line: what is asked for, and the run from the first check to the exit status.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use crate::contenders::allocators::glibc;
use crate::demonstration;
use crate::harness::child;
use crate::harness::failure::Failure;
use crate::harness::run::Plan;
use crate::harness::table::Table;
use crate::plan::Asked;
use crate::tables;

/// Compares Sheaves with other ways to allocate, to count, to read and to wait.
///
/// Contenders take turns in random order, sample by sample, in one process. Printed are the median
/// and the 10th and 90th percentile.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(after_help = list_of_tables())]
pub struct Args {
    /// One of the tables below, or a part of one, as in batch/shuffled/64
    #[arg(value_name = "TABLE")]
    pub table: Option<String>,

    /// Take fewer sizes and samples; without TABLE, compare with glibc and show the result of 2011
    #[arg(long)]
    pub quick: bool,

    /// Threads of the tables that have several; for `synchronize` the most that register
    #[arg(long, value_name = "N")]
    pub threads: Option<String>,

    /// Also write the report to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<std::path::PathBuf>,

    /// Only these sizes, separated by commas: bytes, or what the table says
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub sizes: Option<Vec<String>>,

    /// Only these contenders, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub contenders: Option<Vec<String>>,

    /// Serve one mode of a contender to the process that started this one
    #[arg(long, hide = true, value_name = "MODE")]
    pub serve: Option<String>,
}

fn list_of_tables() -> String {
    let line = |table: &&dyn Table| format!("  {:12} {}\n", table.name(), table.about());
    format!("Tables:\n{}", tables::ALL.iter().map(line).collect::<String>())
}

/// Does what the command line asks for. An error is one line on standard error, with exit status 2
/// if the command line is at fault and 1 otherwise.
pub fn run(args: &Args) -> ExitCode {
    match dispatch(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("sheaves-bench: {failure}");
            ExitCode::from(failure.status)
        }
    }
}

fn dispatch(args: &Args) -> Result<(), Failure> {
    let plan = plan(args)?;
    if let (Some(mode), Some(plan)) = (&args.serve, &plan) {
        return child::serve(mode, &plan.cases);
    }
    glibc::check_origin()?;
    // Opened before the run, so that a long one is not lost to a name that cannot be written.
    let file = args.json.as_ref().map(|path| create(path)).transpose()?;
    let report = match plan {
        Some(plan) => plan.run(&mut print_out)?,
        None => demonstration::run(&mut print_out)?,
    };
    if let (Some(mut file), Some(path)) = (file, &args.json) {
        let written = file.write_all(report.to_json()?.as_bytes());
        written.map_err(|error| cannot_write(path, &error))?;
    }
    Ok(())
}

/// What is asked for; nothing for the demonstration.
fn plan(args: &Args) -> Result<Option<Plan>, Failure> {
    let has_choice = args.contenders.is_some() || args.sizes.is_some() || args.threads.is_some();
    let part = match &args.table {
        Some(table) => table,
        None if args.quick && !has_choice => return Ok(None),
        None => {
            let tables = tables::names();
            return Err(Failure::usage(format!("no table given (there are: {tables})")));
        }
    };
    let asked = Asked {
        part,
        quick: args.quick,
        all_sizes: false,
        threads: args.threads.as_deref(),
        sizes: args.sizes.as_deref(),
        contenders: args.contenders.as_deref(),
    };
    asked.plan().map(Some)
}

fn create(path: &std::path::Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::run(format!("cannot write {}: {error}", path.display()))
}

/// Prints; a closed pipe at the other end is no error.
fn print_out(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "../tests/unit/cli.rs"]
mod tests;
