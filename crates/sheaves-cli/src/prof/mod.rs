//! `sheaves prof`: heap profiles as pprof files, flame graphs and text.
//!
//! A profile comes from a dump, which a program writes to a file, or from a running process. The
//! symbols are looked up here, in the object files that the dump names: never in the process.

mod changes;
pub(crate) mod dump;
mod flame;
mod named;
mod pprof;
pub(crate) mod symbols;
mod text;

use core::time::Duration;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use sheaves_control::layout::{PROFILE_DUMP, PROFILE_START, PROFILE_STOP};

use crate::ask::{Asked, each};
use crate::command_line::{ProfCommand, ProfHeap, ProfLeaks};
use crate::refusal::Refusal;
use dump::Dump;
use named::Profile;

/// Runs a subcommand of `sheaves prof`.
pub(crate) fn run(command: &ProfCommand) -> Result<ExitCode, Refusal> {
    match command {
        ProfCommand::Heap(options) => heap(options)?,
        ProfCommand::Diff { before, after } => {
            let before = profile(before)?;
            let after = profile(after)?;
            print(&changes::Changes::between(&before, &after).text())?;
        }
        ProfCommand::Leaks(options) => leaks(options)?,
        ProfCommand::On { pid, rate } => Asked::tell(*pid, PROFILE_START, *rate)?,
        ProfCommand::Off { pid } => Asked::tell(*pid, PROFILE_STOP, 0)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn heap(options: &ProfHeap) -> Result<(), Refusal> {
    let profile = profile(&options.source)?;
    if let Some(path) = &options.output {
        write(path, &pprof::encode(&profile))?;
    }
    if let Some(path) = &options.svg {
        write(path, &flame::draw(&profile)?)?;
    }
    if options.text || options.output.is_none() && options.svg.is_none() {
        print(&text::list(&profile, options.count))?;
    }
    Ok(())
}

fn leaks(options: &ProfLeaks) -> Result<(), Refusal> {
    let source = options.pid.to_string();
    let before = profile(&source)?;
    std::thread::sleep(Duration::from_secs(options.seconds));
    let after = profile(&source)?;
    print(&changes::Changes::between(&before, &after).grown_and_never_freed().text())
}

/// The profile of a process, if `source` is a number, or in a file.
fn profile(source: &str) -> Result<Profile, Refusal> {
    let dump = match source.parse::<u32>() {
        Ok(pid) => of_process(pid)?,
        Err(_) => read(source, &of_file(source)?)?,
    };
    Ok(Profile::of(dump))
}

fn of_file(path: &str) -> Result<String, Refusal> {
    std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::no_input(format!("{path} is not there")),
        std::io::ErrorKind::InvalidData => not_a_dump(path, "it is not text"),
        _ => Refusal::no_input(format!("cannot read {path}: {error}")),
    })
}

/// The dump of a running process, of all its heaps, and its maps.
fn of_process(pid: u32) -> Result<Dump, Refusal> {
    let dumps = each(pid, |mut asked| {
        let dump = asked.ask(PROFILE_DUMP, 0)?;
        let maps = std::fs::read_to_string(asked.process.path("maps"));
        // Without them, of a process that has ended just now, there are no names.
        let text = dump + &maps.unwrap_or_default();
        Ok((asked.process.name.clone(), read(&asked.process.to_string(), &text)?))
    })?;
    let name = dumps.first().map(|(name, _)| name.clone()).unwrap_or_default();
    let sampled = dumps.into_iter().map(|(_, dump)| dump).filter(|dump| dump.since_ms != 0);
    sampled.reduce(Dump::join).ok_or_else(|| {
        Refusal::unavailable(format!(
            "process {pid} ({name}) takes no samples: turn profiling on by `sheaves prof on {pid}`"
        ))
    })
}

fn read(source: &str, text: &str) -> Result<Dump, Refusal> {
    Dump::parse(text).map_err(|wrong| not_a_dump(source, &wrong))
}

fn not_a_dump(source: &str, wrong: &str) -> Refusal {
    Refusal::bad_data(format!("{source} is not a heap profile of Sheaves: {wrong}"))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    std::fs::write(path, bytes).map_err(|error| {
        Refusal::cannot_create(format!("cannot write {}: {error}", path.display()))
    })
}

fn print(text: &str) -> Result<(), Refusal> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // The reader closed the pipe (`sheaves prof heap FILE | head`): no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Refusal::output(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}
