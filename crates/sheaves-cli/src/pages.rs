//! What packagers install beside the command: completion scripts and the manual pages.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::command_line::Arguments;
use crate::complete::VARIABLE;
use crate::output::{print, write};
use crate::refusal::Refusal;

/// Prints the completion script for `shell`, which asks the command each time.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Refusal> {
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(&shell.to_string()) {
        let written =
            shell.write_registration(VARIABLE, "sheaves", "sheaves", "sheaves", &mut script);
        written.map_err(failed)?;
    }
    print(&String::from_utf8_lossy(&script))
}

/// The day of the last change of the options.
const DATE: &str = "2026-11-29";

/// What the page of the command itself has beside its options: made of the table of options.
const ENVIRONMENT: &str = include_str!("environment.roff");
const MORE: &str = r".SH SEE ALSO
\fBsheaves\fR(3), \fBld.so\fR(8)
";

/// Prints the page of the command, then those of the visible subcommands. With `directory`, writes
/// each page to a file there.
pub(crate) fn man(directory: Option<&Path>) -> Result<ExitCode, Refusal> {
    let pages = pages().map_err(failed)?;
    let Some(directory) = directory else {
        let text: Vec<_> = pages.into_iter().flat_map(|(_, text)| text).collect();
        return print(&String::from_utf8_lossy(&text));
    };
    fs::create_dir_all(directory).map_err(failed)?;
    for (name, text) in pages {
        write(&directory.join(name), &text)?;
    }
    Ok(ExitCode::SUCCESS)
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
    let own = command.clone().override_usage(synopsis(command)).disable_version_flag(true);
    let man = clap_mangen::Man::new(own).title(title).date(DATE);
    let man = man.source(concat!("sheaves ", env!("CARGO_PKG_VERSION"))).manual("Sheaves");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    text.extend_from_slice(sections(&notes).as_bytes());
    pages.push((man.get_filename(), text));
    let mut visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    visible.try_for_each(|sub| add_pages(sub, pages))
}

/// The usage with the values of options.
fn synopsis(command: &clap::Command) -> String {
    let mut text = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let shown = command.get_arguments().filter(|it| !it.is_hide_set());
    let (last, options): (Vec<_>, Vec<_>) = shown.partition(|argument| argument.is_positional());
    for argument in options.into_iter().chain(last) {
        let names = argument.get_value_names().unwrap_or_default();
        let values = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
        let flag = argument.get_long().map(|long| format!("--{long}"));
        let word = match (flag, argument.get_action().takes_values()) {
            (Some(flag), false) => flag,
            (Some(flag), true) if argument.is_require_equals_set() => format!("{flag}[={values}]"),
            (Some(flag), true) => format!("{flag} {values}"),
            (None, _) => values,
        };
        let is_needed = argument.is_required_set();
        text += &if is_needed { format!(" {word}") } else { format!(" [{word}]") };
    }
    if command.has_subcommands() {
        text += " COMMAND ...";
    }
    text
}

/// The parts of a note as sections, see [`crate::notes`].
fn sections(notes: &str) -> String {
    let mut text = String::new();
    for part in notes.split("\n\n").filter(|part| !part.is_empty()) {
        let (first, rest) = part.split_once('\n').unwrap_or((part, ""));
        match first.strip_suffix(':') {
            Some(heading) => text += &format!(".SH {}\n", heading.to_uppercase()),
            None => text += &format!(".SH NOTES\n{}\n", roff(first)),
        }
        for line in rest.lines() {
            match line.trim_start().split_once("  ") {
                Some((term, meaning)) => {
                    text += &format!(".TP\n\\fB{}\\fR\n{}\n", roff(term), roff(meaning.trim()));
                }
                None => text += &format!("{}\n", roff(line)),
            }
        }
    }
    text
}

/// Text that has no meaning to roff.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

fn failed(error: io::Error) -> Refusal {
    Refusal::cannot_create(format!("cannot write the pages: {error}"))
}
