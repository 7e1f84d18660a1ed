//! `sheaves prof`: heap profiles as pprof files, flame graphs and text.
//!
//! A profile comes from a dump, which a program writes to a file, or from a running process. The
//! symbols are looked up here, in the object files that the dump names: never in the process.

mod changes;
pub(crate) mod dump;
pub(crate) mod files;
mod flame;
mod named;
mod pprof;
pub(crate) mod symbols;
mod text;

use core::time::Duration;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::process::ExitCode;

use sheaves_control::layout::{PROFILE_DUMP, PROFILE_START, PROFILE_STOP};

use crate::ask::{Asked, apart, each};
use crate::command_line::{ProfCommand, ProfHeap, ProfLeaks};
use crate::output::{print, say, write};
use crate::refusal::Refusal;
use dump::Dump;
use named::Profile;
use symbols::Symbols;

/// The largest dump that is read: 16 times what a process can answer.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// How long it may take to read the list of a process's mappings.
const MAPPINGS_LIMIT: Duration = Duration::from_secs(1);

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
    print(&changes::Changes::between(&before, &after).grown_and_never_freed().text()).map(drop)
}

/// The profile of a process, if `source` is a number, or in a file.
fn profile(source: &str) -> Result<Profile, Refusal> {
    match source.parse::<u32>() {
        Ok(pid) => of_process(pid),
        Err(_) => {
            let mut dump = read(source, &of_file(source)?)?;
            let mappings = core::mem::take(&mut dump.mappings);
            if mappings.is_empty() && !dump.sites.is_empty() {
                say(&format!("{source} has no mappings: its functions have no names"));
            }
            Ok(Profile::of(dump, Symbols::new(mappings)))
        }
    }
}

fn of_file(path: &str) -> Result<String, Refusal> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Refusal::no_input(format!("{path} is not there")),
        ErrorKind::InvalidData => not_a_dump(path, "it is not text"),
        _ => Refusal::no_input(format!("cannot read {path}: {error}")),
    })?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(not_a_dump(path, "it is longer than 64 MiB"));
    }
    Ok(text)
}

/// The profile of a running process, of all its heaps.
fn of_process(pid: u32) -> Result<Profile, Refusal> {
    let dumps = each(pid, |mut asked| {
        let dump = read(&asked.process.to_string(), &asked.ask(PROFILE_DUMP, 0)?)?;
        Ok((asked.process, dump))
    })?;
    let process = dumps.first().map(|(process, _)| process.clone());
    let sampled = dumps.into_iter().map(|(_, dump)| dump).filter(|dump| dump.since_ms != 0);
    match (sampled.reduce(Dump::join), process) {
        (Some(dump), Some(process)) => {
            // Without them, of a process that has ended just now, there are no names.
            let mappings = apart::within(MAPPINGS_LIMIT, move || process.mappings());
            Ok(Profile::of(dump, Symbols::of_process(pid, mappings.unwrap_or_default())))
        }
        (_, process) => {
            let name = process.map(|process| process.name).unwrap_or_default();
            Err(Refusal::unavailable(format!(
                "process {pid} ({name}) takes no samples: turn profiling on by `sheaves prof on \
                 {pid}`"
            )))
        }
    }
}

fn read(source: &str, text: &str) -> Result<Dump, Refusal> {
    Dump::parse(text).map_err(|wrong| not_a_dump(source, &wrong))
}

fn not_a_dump(source: &str, wrong: &str) -> Refusal {
    Refusal::bad_data(format!("{source} is not a heap profile of Sheaves: {wrong}"))
}
