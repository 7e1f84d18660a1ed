//! The options of the library: one table, and what is made of it.
//!
//! `docs/options.md` is the only place where an option is described. `cargo xtask header` writes it
//! into the README of the crate `sheaves`, the manual pages and the comment of the C header, and
//! `cargo xtask tidy` compares its names with those that the source reads.

use core::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;

/// The table.
pub const TABLE: &str = "docs/options.md";
/// Documents that have the table between two marks.
const DOCUMENTS: [&str; 1] = ["crates/sheaves/README.md"];
const BEGIN: &str = "<!-- options -->\n";
const END: &str = "<!-- /options -->\n";
/// The part of the manual page of the command.
const COMMAND_PAGE: &str = "crates/sheaves-cli/src/environment.roff";

/// What an option is about: the word in its column `of`.
pub(crate) const MEMORY: &str = "memory";
pub(crate) const RCU: &str = "rcu";
const PRELOAD: &str = "preload";
const COMMAND: &str = "command";
/// Not for users.
const INTERNAL: &str = "internal";

/// A row of the table, its cells as they are written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opt {
    /// The variable.
    pub name: String,
    values: String,
    default: String,
    of: String,
    meaning: String,
}

/// The rows of the table in a text.
///
/// # Errors
/// A row that has not five cells, or is about something unknown.
pub fn parse(text: &str) -> anyhow::Result<Vec<Opt>> {
    let mut options = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| `SHEAVES_")) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, values, default, of, meaning] = cells[..] else {
            anyhow::bail!("{TABLE}: a row has {} cells and not 5: {line}", cells.len());
        };
        let is_known = [MEMORY, RCU, PRELOAD, COMMAND, INTERNAL].contains(&of);
        anyhow::ensure!(is_known, "{TABLE}: {name} is about `{of}`, which no page is about");
        options.push(Opt {
            name: plain(name),
            values: values.to_owned(),
            default: default.to_owned(),
            of: of.to_owned(),
            meaning: meaning.to_owned(),
        });
    }
    Ok(options)
}

pub(crate) fn read(root: &Path) -> anyhow::Result<Vec<Opt>> {
    parse(&std::fs::read_to_string(root.join(TABLE)).context(TABLE)?)
}

/// The files that are made of the table alone, and their texts.
pub(crate) fn make(root: &Path, options: &[Opt]) -> anyhow::Result<Vec<(String, String)>> {
    let mut made = vec![(COMMAND_PAGE.to_owned(), command_page(options))];
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root.join(document)).context(document)?;
        let (before, rest) = text.split_once(BEGIN).context("no mark for options")?;
        let (_, after) = rest.split_once(END).context("no end of options")?;
        let table = markdown(options);
        made.push((document.to_owned(), format!("{before}{BEGIN}{table}{END}{after}")));
    }
    Ok(made)
}

/// Text without the marks of code.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

fn of<'a>(options: &'a [Opt], what: &'a str) -> impl Iterator<Item = &'a Opt> {
    options.iter().filter(move |option| option.of == what)
}

fn markdown(options: &[Opt]) -> String {
    let mut text =
        "| variable | values | default | holds for | meaning |\n|---|---|---|---|---|\n".to_owned();
    for Opt { name, values, default, of, meaning } in options.iter().filter(|it| it.of != INTERNAL)
    {
        let holds_for = match of.as_str() {
            PRELOAD => "the preload object",
            COMMAND => "the command",
            _ => "all programs",
        };
        let _ = writeln!(text, "| `{name}` | {values} | {default} | {holds_for} | {meaning} |");
    }
    text
}

/// A list for a page in mdoc.
pub(crate) fn mdoc(options: &[Opt], what: &str) -> String {
    let width = of(options, what).map(|option| option.name.as_str()).max_by_key(|name| name.len());
    let mut text = format!(".Bl -tag -width {}\n", width.unwrap_or_default());
    for Opt { name, values, default, meaning, .. } in of(options, what) {
        let _ = writeln!(text, ".It Ev {name}");
        text = text + &plain(meaning).replace(". ", ".\n") + "\n";
        let _ = writeln!(text, "Values: {}; default: {}.", plain(values), plain(default));
    }
    text + ".El\n"
}

/// Lines of the comment at the head of the C header: variable and values, then the meaning.
pub(crate) fn comment(options: &[Opt]) -> String {
    const COLUMNS: usize = 98;
    let mut text = String::new();
    for option in of(options, MEMORY).chain(of(options, RCU)) {
        let Opt { name, values, default, meaning, .. } = option;
        let _ = writeln!(text, " *   {name}: {}; default: {}", plain(values), plain(default));
        let mut line = " *      ".to_owned();
        for word in plain(meaning).split(' ') {
            if line.len() + 1 + word.len() > COLUMNS {
                let _ = writeln!(text, "{line}");
                line = " *      ".to_owned();
            }
            line = line + " " + word;
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The section of the command's page, in man(7).
fn command_page(options: &[Opt]) -> String {
    let mut text = ".SH ENVIRONMENT\n".to_owned();
    let bold = |name: &str| format!("\\fB{name}\\fR");
    for option in of(options, COMMAND).chain(of(options, PRELOAD)) {
        let meaning = plain(&option.meaning).replace(". ", ".\n");
        let _ = writeln!(text, ".TP\n{}\n{meaning}", bold(&option.name));
        let (values, default) = (plain(&option.values), plain(&option.default));
        let _ = writeln!(text, "Values: {values}; default: {default}.");
    }
    for (what, page) in [(MEMORY, "sheaves"), (RCU, "sheaves_rcu")] {
        let names: Vec<_> = of(options, what).map(|option| bold(&option.name)).collect();
        let _ = writeln!(text, ".TP\n{}", names.join(", \\\n"));
        let _ = writeln!(text, "How the library works in the programs that are started.");
        let _ = writeln!(text, "See {}(3).", bold(page));
    }
    text
}

#[cfg(test)]
#[path = "../tests/unit/options.rs"]
mod tests;
