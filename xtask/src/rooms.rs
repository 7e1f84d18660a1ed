//! The table of rooms in `ARCHITECTURE.md`: the files and folders of each library crate, each with
//! the first sentence of its documentation. `cargo xtask header` writes it, `cargo xtask tidy`
//! compares.
//!
//! A folder is one room: its files are not listed. A room has one line, so that changes of two
//! rooms can be merged.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use crate::repo::TextFile;
use crate::tidy::place;

/// The document with the table.
pub const DOCUMENT: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- rooms:begin -->\n";
const END: &str = "<!-- rooms:end -->\n";

/// The document with the table of these files; nothing if it has no place for it.
#[must_use]
pub fn document(files: &[TextFile]) -> Option<String> {
    let document = files.iter().find(|file| file.path == DOCUMENT)?;
    let (before, rest) = document.text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}{END}{after}", table(files)))
}

fn table(files: &[TextFile]) -> String {
    let mut crates: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for file in files.iter().filter(|file| place::is_library_code(&file.path)) {
        let Some((folder, below)) = file.path.split_once("/src/") else { continue };
        if let Some(room) = room(below) {
            crates.entry(folder).or_default().insert(room, first_sentence(&file.text));
        }
    }
    let mut text = String::new();
    for (folder, rooms) in crates {
        let _ = writeln!(text, "\n| `{folder}/src/` | |\n|---|---|");
        for (room, sentence) in rooms {
            let _ = writeln!(text, "| `{room}` | {} |", sentence.replace('|', "\\|"));
        }
    }
    text + "\n"
}

/// The name of the room that a file describes: a folder for its `mod.rs`, itself in `src`.
fn room(below: &str) -> Option<&str> {
    let is_file = !below.contains('/') && below != "lib.rs";
    below.strip_suffix("mod.rs").or_else(|| (is_file && below.ends_with(".rs")).then_some(below))
}

/// The first sentence of a file's documentation, with its links as plain text.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = lines.join(" ");
    let ends = paragraph.match_indices(". ").map(|(at, _)| at);
    let mut ends = ends.filter(|at| {
        !paragraph[..*at].ends_with("cf") && !paragraph[at + 2..].starts_with(char::is_lowercase)
    });
    without_links(&paragraph[..ends.next().map_or(paragraph.len(), |at| at + 1)])
}

/// `[text]`, `[text](target)` and ``[`path`]`` as their text; brackets in code stay.
fn without_links(text: &str) -> String {
    let plain = |piece: &str| {
        let mut parts = piece.split("](");
        let first = parts.next().unwrap_or_default().to_owned();
        let text = parts.fold(first, |text, part| {
            text + part.split_once(')').map_or(part, |(_target, after)| after)
        });
        text.replace(['[', ']'], "")
    };
    let pieces = text.split('`').enumerate();
    let pieces = pieces.map(|(index, piece)| match index % 2 {
        0 => plain(piece),
        _ => piece.replace("mod@", ""),
    });
    pieces.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
#[path = "../tests/unit/rooms.rs"]
mod tests;
