//! The command line: what is asked for, and the run from the first check to the exit status.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use crate::contenders::allocators::glibc;
use crate::demonstration;
use crate::harness::Failure;
use crate::harness::{child, plot};
pub use crate::plan::Args;

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
    let has_choice = args.contenders.is_some()
        || args.sizes.is_some()
        || args.threads.is_some()
        || args.plot.is_some();
    let demonstrates = args.table.is_none() && args.quick && !has_choice;
    let plan = if demonstrates { None } else { Some(args.plan()?) };
    if let (Some(mode), Some(plan)) = (&args.serve, &plan) {
        return child::serve(mode, &plan.cases);
    }
    glibc::check_origin()?;
    // Opened before the run, so that a long one is not lost to a name that cannot be written.
    let json = args.json.as_ref().map(|path| create(path)).transpose()?;
    let picture = args.plot.as_ref().map(|path| create(path)).transpose()?;
    let report = match plan {
        Some(plan) => plan.run(&mut print_out)?,
        None => demonstration::run(&mut print_out)?,
    };
    if let (Some(file), Some(path)) = (json, &args.json) {
        write(file, path, &report.to_json()?)?;
    }
    if let (Some(file), Some(path)) = (picture, &args.plot) {
        write(file, path, &plot::draw(&report)?)?;
    }
    Ok(())
}

fn write(mut file: File, path: &Path, text: &str) -> Result<(), Failure> {
    file.write_all(text.as_bytes()).map_err(|error| cannot_write(path, &error))
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
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
