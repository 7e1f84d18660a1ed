//! What packagers install beside the command: completion scripts and the manual pages.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
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

/// The day of the last change of the options.
const DATE: &str = "2026-11-25";

/// What the page of the command itself has beside its options: made of the table of options.
const ENVIRONMENT: &str = include_str!("environment.roff");
const MORE: &str = r".SH SEE ALSO
\fBsheaves\fR(3), \fBld.so\fR(8)
";

/// Prints the page of the command, then those of the visible subcommands. With `directory`, writes
/// each page to a file there.
pub(crate) fn man(directory: Option<&Path>) -> ExitCode {
    let Some(directory) = directory else {
        return pages().map_or_else(failed, |pages| {
            print(&pages.into_iter().flat_map(|(_, text)| text).collect::<Vec<_>>())
        });
    };
    let write = |pages: Vec<(String, Vec<u8>)>| {
        fs::create_dir_all(directory)?;
        pages.into_iter().try_for_each(|(name, text)| fs::write(directory.join(name), text))
    };
    pages().and_then(write).map_or_else(failed, |()| ExitCode::SUCCESS)
}

/// File names and contents of the pages; the command itself comes first.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &mut pages)?;
    pages[0].1.extend_from_slice(ENVIRONMENT.as_bytes());
    pages[0].1.extend_from_slice(MORE.as_bytes());
    Ok(pages)
}

/// Adds the page of a command and those of its visible subcommands.
fn add_pages(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let title = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let man = clap_mangen::Man::new(command.clone()).title(title).date(DATE);
    let man = man.source(concat!("sheaves ", env!("CARGO_PKG_VERSION"))).manual("Sheaves");
    let mut text = Vec::new();
    man.render(&mut text)?;
    pages.push((man.get_filename(), text));
    let mut visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    visible.try_for_each(|sub| add_pages(sub, pages))
}

fn failed(error: io::Error) -> ExitCode {
    crate::output::say(&format!("cannot write the manual pages: {error}"));
    ExitCode::FAILURE
}

/// Writes to stdout; a reader that closes the pipe early (`sheaves man | head`) is no failure.
fn print(text: &[u8]) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            crate::output::say(&format!("cannot write to stdout: {error}"));
            ExitCode::FAILURE
        }
    }
}
