//! `sheaves run`: starts a program on Sheaves; its caller sees what it would see of the program.
//!
//! The order: find the preload object, find the program as a shell would, check that an object can
//! be preloaded into it, start it and wait for the greeting. Every refusal happens before the
//! program starts.

mod child;
pub(crate) mod inspect;
mod launch;
pub(crate) mod resolve;
mod signals;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::command_line::{RunOptions, StatsFormat};
use crate::preload::Preload;
use crate::refusal::Refusal;

/// Runs the program to its end and returns its exit status.
pub(crate) fn run(options: &RunOptions) -> Result<ExitCode, Refusal> {
    let preload = Preload::find(options.preload.as_deref()).map_err(Refusal::own_failure)?;
    let (program, arguments) =
        options.program.split_first().ok_or_else(|| Refusal::not_found("no program is given"))?;
    let path = resolve::resolve(program)?;
    let image = inspect::inspect(&path, preload.target)?;
    if let Some(owner) = image.own_allocator {
        eprintln!(
            "sheaves: warning: {} has {owner} linked into it; it may crash when memory passes \
             between the two allocators: build it with the system malloc",
            image.path.display()
        );
    }
    let stats_file = options.stats_file.as_deref().map(writable).transpose()?;
    let launch = launch::Launch {
        preload: &preload,
        name: program,
        path: &path,
        through_shell: image.through_shell,
        arguments,
        stats: options.stats.or(stats_file.as_ref().map(|_| StatsFormat::Text)),
        stats_file: stats_file.as_deref(),
        harden: options.harden,
        verbose: options.verbose,
    };
    launch.run()
}

/// Checks before the start that the statistics can be written, and empties the file. The path
/// becomes absolute because the program may change its directory.
fn writable(path: &Path) -> Result<PathBuf, Refusal> {
    let refuse = |error: std::io::Error| {
        Refusal::own_failure(format!("cannot write statistics to {}: {error}", path.display()))
    };
    OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(refuse)?;
    std::path::absolute(path).map_err(refuse)
}
