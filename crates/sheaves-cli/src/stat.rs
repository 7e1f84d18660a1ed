//! `sheaves stat`: the statistics of a running process, once.

use std::io::{self, Write as _};
use std::process::ExitCode;

use sheaves_control::layout::{STATISTICS, STATISTICS_TEXT};

use crate::ask::Asked;
use crate::command_line::StatOptions;
use crate::refusal::Refusal;

pub(crate) fn stat(options: &StatOptions) -> Result<ExitCode, Refusal> {
    let command = if options.json { STATISTICS } else { STATISTICS_TEXT };
    let text = Asked::attach(options.pid)?.ask(command, 0)?;
    print(&text)
}

/// Prints to stdout; a reader that closes the pipe early is no failure.
pub(crate) fn print(text: &str) -> Result<ExitCode, Refusal> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Refusal::output(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
