//! The command line: what is asked for, and the run from the first check to the exit status.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::contenders::allocators::glibc;
use crate::demonstration;
use crate::harness::{Failure, Report, child, failure, page, plot, text};
pub use crate::plan::Args;

/// Does what the command line asks for. An error is one line on standard error, with exit status 2
/// if the command line is at fault and 1 otherwise.
pub fn run(args: &Args) -> ExitCode {
    match dispatch(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure::say(&failure.message);
            ExitCode::from(failure.status)
        }
    }
}

/// Makes the text of a file of a report.
type Render = fn(&Report) -> Result<String, Failure>;

fn dispatch(args: &Args) -> Result<(), Failure> {
    let plan = if args.measures_a_table()? { Some(args.plan()?) } else { None };
    if let (Some(mode), Some(plan)) = (&args.serve, &plan) {
        return child::serve(mode, &plan.cases);
    }
    glibc::check_origin()?;
    // Read before files are opened, of which one may be the same.
    let earlier = args.from.as_ref().map(|path| read(path)).transpose()?;
    let outputs: [(&Option<PathBuf>, Render); 3] = [
        (&args.json, Report::to_json),
        (&args.plot, plot::draw_traces),
        (&args.html, page::render),
    ];
    // Opened before the run, so that a long one is not lost to a name that cannot be written.
    let mut files = Vec::new();
    for (path, render) in outputs {
        if let Some(path) = path {
            files.push((create(path)?, path, render));
        }
    }
    let mut text = String::new();
    let mut print = |part: &str| {
        text.push_str(part);
        print_out(part)
    };
    let mut report = match (earlier, plan) {
        (Some(report), _) => show(report, &mut print)?,
        (None, Some(plan)) => plan.run(&mut print)?,
        (None, None) => demonstration::run(&mut print)?,
    };
    report.text = text;
    for (mut file, path, render) in files {
        let text = render(&report)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| stored(&file));
        written.map_err(|error| cannot_write(path, &error))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Report, Failure> {
    let told = |error: String| Failure::run(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
    Report::from_json(&text).map_err(told)
}

/// Prints a report that was written before.
fn show(
    report: Report,
    print: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Result<Report, Failure> {
    print(&text::header(&report))?;
    for heading in report.headings() {
        print(&text::figures(&report, heading))?;
    }
    print(&text::ending(&report, ""))?;
    Ok(report)
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| cannot_write(path, &error))
}

/// Some file systems report a full disk only when the file is stored. Pipes cannot be.
fn stored(file: &File) -> std::io::Result<()> {
    if file.metadata()?.is_file() { file.sync_data() } else { Ok(()) }
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
