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
use std::path::Path;
use std::process::ExitCode;

use sheaves_control::layout::{PROFILE_DUMP, PROFILE_START, PROFILE_STOP};

use crate::ask::named::one as named_process;
use crate::ask::process::Process;
use crate::ask::{Asked, apart, each};
use crate::command_line::{ProfCommand, ProfHeap, ProfLeaks};
use crate::output::{plain, print, say, write};
use crate::refusal::Refusal;
use changes::Changes;
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
        ProfCommand::Dump { process, output } => dump(process, output.as_deref())?,
        ProfCommand::Diff { before, after, svg } => {
            let changes = Changes::between(&profile(before)?, &profile(after)?);
            if let Some(path) = svg {
                write(path, &changes.graph()?)?;
            }
            print(&changes.text())?;
        }
        ProfCommand::Leaks(options) => leaks(options)?,
        ProfCommand::On { process, rate } => {
            Asked::tell(named_process(process)?, PROFILE_START, *rate)?;
        }
        ProfCommand::Off { process } => Asked::tell(named_process(process)?, PROFILE_STOP, 0)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn heap(options: &ProfHeap) -> Result<(), Refusal> {
    let profile = profile(&options.source)?;
    if let Some(path) = &options.output {
        write(path, &pprof::encode(&profile))?;
    }
    if let Some(path) = &options.svg {
        write(path, &flame::of_profile(&profile)?)?;
    }
    if options.text || options.output.is_none() && options.svg.is_none() {
        print(&text::list(&profile, options.count))?;
    }
    Ok(())
}

fn leaks(options: &ProfLeaks) -> Result<(), Refusal> {
    let pid = named_process(&options.process)?;
    // Held meanwhile: another process may get its number.
    let mut asked = Asked::attach(pid)?;
    let before = of_asked(&mut asked)?;
    std::thread::sleep(Duration::from_secs(options.seconds));
    let changes = Changes::between(&before, &of_asked(&mut asked)?).grown_and_never_freed();
    print(&changes.text())?;
    match &options.svg {
        Some(path) => write(path, &changes.graph_of_growth()?),
        None => Ok(()),
    }
}

fn dump(process: &str, output: Option<&Path>) -> Result<(), Refusal> {
    let (_, dump) = dump_of(&mut Asked::attach(named_process(process)?)?)?;
    match output {
        Some(path) => write(path, dump.to_string().as_bytes()),
        None => print(&dump.to_string()).map(drop),
    }
}

/// The profile in a file, or else that of a process with this number or name.
fn profile(source: &str) -> Result<Profile, Refusal> {
    if source.parse::<u32>().is_ok() {
        return of_process(named_process(source)?);
    }
    let text = match of_file(source) {
        Err(refusal) if !source.contains('/') && !Path::new(source).exists() => {
            return named_process(source).map_err(|_| refusal).and_then(of_process);
        }
        text => text?,
    };
    let mut dump = read(source, &text)?;
    let mappings = core::mem::take(&mut dump.mappings);
    if mappings.is_empty() && !dump.sites.is_empty() {
        say(&format!("{source} has no mappings: its functions have no names"));
    }
    let of = dump.process.clone().unwrap_or_else(|| plain(source).into_owned());
    Ok(Profile::of(dump, Symbols::new(mappings), of))
}

fn of_file(path: &str) -> Result<String, Refusal> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => {
            let line = format!("{path} is not there, nor a process with this name");
            Refusal::no_input(line)
        }
        ErrorKind::InvalidData => not_a_dump(path, "it is not text"),
        _ => Refusal::no_input(format!("cannot read {path}: {error}")),
    })?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(not_a_dump(path, "it is longer than 64 MiB"));
    }
    Ok(text)
}

/// The profile of a running process.
fn of_process(pid: u32) -> Result<Profile, Refusal> {
    of_asked(&mut Asked::attach(pid)?)
}

fn of_asked(asked: &mut [Asked]) -> Result<Profile, Refusal> {
    let (process, mut dump) = dump_of(asked)?;
    let mappings = core::mem::take(&mut dump.mappings);
    Ok(Profile::of(dump, Symbols::of_process(process.pid, mappings), process.to_string()))
}

/// A running process, and the samples of all heaps of it.
fn dump_of(asked: &mut [Asked]) -> Result<(Process, Dump), Refusal> {
    asked.iter_mut().for_each(Asked::renew);
    let process = asked[0].process.clone();
    let dumps =
        each(asked, |asked| read(&asked.process.to_string(), &asked.ask(PROFILE_DUMP, 0)?))?;
    let Some(mut dump) = dumps.into_iter().filter(|dump| dump.since_ms != 0).reduce(Dump::join)
    else {
        let Process { pid, name, .. } = process;
        return Err(Refusal::unavailable(format!(
            "process {pid} ({name}) takes no samples: turn profiling on by `sheaves prof on {pid}`"
        )));
    };
    dump.process = Some(process.to_string());
    // Without them, of a process that has ended just now, there are no names.
    let of = process.clone();
    dump.mappings = apart::within(MAPPINGS_LIMIT, move || of.mappings()).unwrap_or_default();
    Ok((process, dump))
}

fn read(source: &str, text: &str) -> Result<Dump, Refusal> {
    Dump::parse(text).map_err(|wrong| not_a_dump(source, &wrong))
}

fn not_a_dump(source: &str, wrong: &str) -> Refusal {
    Refusal::bad_data(format!("{source} is not a heap profile of Sheaves: {wrong}"))
}
