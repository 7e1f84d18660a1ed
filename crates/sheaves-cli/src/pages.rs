//! What packagers install beside the command: completion scripts and the manual page.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::command_line::Arguments;

/// Prints the completion script for `shell`.
pub(crate) fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "sheaves", &mut script);
    print(&script)
}

/// Prints one page for the command and, after it, one for each visible subcommand.
pub(crate) fn man() -> ExitCode {
    let mut command = Arguments::command();
    command.build();
    let mut page = Vec::new();
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
    let mut commands = vec![command.clone()];
    commands.extend(visible.filter(|sub| sub.get_name() != "help"));
    for command in commands {
        if let Err(error) = clap_mangen::Man::new(command).render(&mut page) {
            eprintln!("sheaves: cannot make the manual page: {error}");
            return ExitCode::FAILURE;
        }
    }
    print(&page)
}

/// Writes to stdout; a reader that has seen enough (`sheaves man | head`) is no failure.
fn print(text: &[u8]) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sheaves: cannot write: {error}");
            ExitCode::FAILURE
        }
    }
}
