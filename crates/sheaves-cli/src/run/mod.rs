//! `sheaves run`: becomes a program on Sheaves.
//!
//! The order: find the preload object, find the program as a shell would, check that an object can
//! be preloaded into it and that `malloc` will be that of Sheaves, then become the program. Every
//! refusal happens before.

mod allocators;
mod inherited;
pub(crate) mod inspect;
mod libraries;
pub(crate) mod resolve;
mod start;

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::command_line::RunOptions;
use crate::preload::Preload;
use crate::refusal::Refusal;
use start::Start;

/// Becomes the program. Returns only where that fails.
pub(crate) fn run(options: &RunOptions) -> Result<ExitCode, Refusal> {
    let preload = Preload::find(options.preload.as_deref()).map_err(Refusal::own_failure)?;
    let program =
        options.program.first().ok_or_else(|| Refusal::not_found("no program is given"))?;
    let path = resolve::resolve(program)?;
    let image = inspect::inspect(&path, &preload)?;
    for warning in image.warnings {
        crate::output::say(&format!("warning: {}: {}", warning.found, warning.advice));
    }
    let stats = options.stats_file.as_deref().map(writable).transpose()?;
    let mut start = Start::new(options, &path, image.through_shell);
    start.set(&preload, options, stats.as_deref());
    let error = start.exec();
    let line = format!("{}: {error}", path.display());
    Err(match error.kind() {
        ErrorKind::NotFound => Refusal::not_found(line),
        _ => Refusal::not_executable(line),
    })
}

/// Checks before the start that the statistics can be written, and empties the file. The path
/// becomes absolute because the program may change its directory.
fn writable(path: &Path) -> Result<PathBuf, Refusal> {
    let refuse = |error: std::io::Error| {
        Refusal::own_failure(format!("cannot write statistics to {}: {error}", path.display()))
    };
    // The number of this process will be the program's.
    let number = std::process::id().to_string();
    let own = path.to_str().map(|path| PathBuf::from(path.replace("%p", &number)));
    let own = own.as_deref().unwrap_or(path);
    OpenOptions::new().write(true).create(true).truncate(true).open(own).map_err(refuse)?;
    std::path::absolute(path).map_err(refuse)
}
