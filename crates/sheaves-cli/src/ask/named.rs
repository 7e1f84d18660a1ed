//! Processes by the words of a command line: numbers, or names.

use super::process::Process;
use super::{LIMIT, apart};
use crate::output;
use crate::refusal::Refusal;

/// Bytes that the kernel keeps of a name.
const NAME_BYTES: usize = 15;

/// The process of a number, or the only one on Sheaves that has a name.
pub(crate) fn one(word: &str) -> Result<u32, Refusal> {
    if let Ok(pid) = word.parse() {
        return Ok(pid);
    }
    let all = with_name(word);
    let pids = |all: &[Process]| all.iter().map(|process| process.pid).collect::<Vec<_>>();
    let found = match all.len() {
        0 | 1 => pids(&all),
        _ => pids(&on_sheaves(|process| all.iter().any(|it| it.pid == process.pid))),
    };
    match found[..] {
        [pid] => Ok(pid),
        [] if all.is_empty() => Err(Refusal::no_process(format!("no process has the name {word}"))),
        [] => Err(Refusal::unavailable(format!("no process with the name {word} has Sheaves"))),
        _ => {
            let numbers: Vec<_> = found.iter().map(u32::to_string).collect();
            let numbers = numbers.join(", ");
            let line = format!("{} processes have the name {word}: {numbers}", found.len());
            Err(Refusal::no_process(format!("{line}. Give the number of one")))
        }
    }
}

/// All processes with a name.
pub(crate) fn with_name(word: &str) -> Vec<Process> {
    let name = output::name(&word.as_bytes()[..word.len().min(NAME_BYTES)]);
    let all = Process::others().into_iter().filter_map(Process::read);
    all.filter(|process| process.name == name).collect()
}

/// The processes on Sheaves that are wanted, as far as they can be looked at in time.
pub(crate) fn on_sheaves(is_wanted: impl Fn(&Process) -> bool) -> Vec<Process> {
    let all = Process::others().into_iter().filter_map(Process::read);
    let all: Vec<_> = all.filter(|process| is_wanted(process)).map(|it| it.pid).collect();
    let look = |pid| Process::read(pid).filter(Process::is_on_sheaves);
    let mut found = Vec::new();
    apart::for_each(all, super::LIMIT_OF_MANY, LIMIT, look, |_, process| {
        found.extend(process.flatten());
    });
    found.sort_by_key(|process| process.pid);
    found
}
