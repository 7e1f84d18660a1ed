//! What shells complete: processes on Sheaves, by number and by name, and files.

use std::ffi::OsStr;

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

fn process(word: &OsStr) -> Vec<CompletionCandidate> {
    let word = word.to_string_lossy();
    let number = |pid: u32, name: &str| {
        CompletionCandidate::new(pid.to_string()).help(Some(StyledStr::from(name.to_owned())))
    };
    let all = named::on_sheaves(|_| true).into_iter().flat_map(|process| {
        let name = CompletionCandidate::new(&process.name);
        [number(process.pid, &process.name), name]
    });
    all.filter(|it| it.get_value().to_string_lossy().starts_with(&*word)).collect()
}
