//! What shells complete: processes on Sheaves, by number and by name, programs, and files.

use alloc::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::{env, fs};

use clap::builder::StyledStr;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};

use crate::ask::named;

/// The variable by which a shell asks.
pub(crate) const VARIABLE: &str = "_SHEAVES_COMPLETE";

/// Completes a process.
pub(crate) fn processes() -> ArgValueCompleter {
    ArgValueCompleter::new(process)
}

/// Completes a process or a file.
pub(crate) fn sources() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| {
        process(word).into_iter().chain(PathCompleter::any().complete(word)).collect::<Vec<_>>()
    })
}

/// Completes a program: a name in one of the folders of `PATH`, or a path.
pub(crate) fn programs() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| {
        let folders = env::var_os("PATH").unwrap_or_default();
        let entries = env::split_paths(&folders).filter_map(|folder| fs::read_dir(folder).ok());
        let names = entries.flatten().flatten().map(|entry| entry.file_name());
        let begins = |name: &OsString| name.as_encoded_bytes().starts_with(word.as_encoded_bytes());
        let names: BTreeSet<_> = names.filter(begins).collect();
        let names = names.into_iter().map(CompletionCandidate::new);
        names.chain(PathCompleter::any().complete(word)).collect::<Vec<_>>()
    })
}

fn process(word: &OsStr) -> Vec<CompletionCandidate> {
    let word = word.to_string_lossy();
    let number = |pid: u32, name: &str| {
        CompletionCandidate::new(pid.to_string()).help(Some(StyledStr::from(name.to_owned())))
    };
    let all = named::on_sheaves(|_| true).into_iter().flat_map(|process| {
        let name = is_word(&process.name).then(|| CompletionCandidate::new(&process.name));
        [Some(number(process.pid, &process.name)), name].into_iter().flatten()
    });
    all.filter(|it| it.get_value().to_string_lossy().starts_with(&*word)).collect()
}

/// True of a name that a shell takes as it is. Bash puts what it completes on the command line
/// without quotes, and any user chooses the names of its processes: `$(...)` would be run.
fn is_word(name: &str) -> bool {
    let is_taken = |char: char| char.is_ascii_alphanumeric() || "_.+@-".contains(char);
    !name.starts_with('-') && name.chars().all(is_taken)
}

#[cfg(test)]
#[path = "../tests/unit/complete.rs"]
mod tests;
