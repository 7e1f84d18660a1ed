//! The rule about words: comments and documents say what does something.
//!
//! Threads, CPUs, leaders and waiters are *it*, never a person, and some turns of phrase have to be
//! read twice. Both are refused, in comments of Rust code and in Markdown.

use crate::finding::{Finding, Kind};
use crate::repo::TextFile;

/// Words for persons.
const PERSONS: [&str; 8] =
    ["he", "him", "his", "whoever", "somebody", "nobody", "anybody", "everybody"];
/// Phrases that have to be read twice.
const PHRASES: [&str; 5] = ["so many", "so manieth", "of now", "since more than", "to be had"];

/// Everything that is refused.
pub(crate) fn refused() -> impl Iterator<Item = &'static str> {
    PERSONS.into_iter().chain(PHRASES)
}

pub(crate) fn check(file: &TextFile, findings: &mut Vec<Finding>) {
    let prose: fn(&str) -> Option<&str> = match file.path.rsplit('.').next() {
        Some("md") => |line| Some(line),
        Some("rs") => comment_of,
        _ => return,
    };
    for (line, number) in file.text.lines().zip(1..) {
        let Some(text) = prose(line) else { continue };
        // Names in backticks are code.
        let text: String = text.split('`').step_by(2).collect::<Vec<_>>().join("`").to_lowercase();
        for refused in refused().filter(|refused| has(&text, refused)) {
            findings.push(Finding::new(&file.path, number, Kind::RefusedWords { refused }));
        }
    }
}

/// The comment in a line, unless its slashes stand in a string.
fn comment_of(line: &str) -> Option<&str> {
    let (before, _) = line.split_once("//")?;
    let is_code = before.matches('"').count() % 2 == 0;
    is_code.then(|| &line[before.len()..])
}

/// Is a phrase in a text, at the boundaries of words?
fn has(text: &str, phrase: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        let after = text[at + phrase.len()..].chars().next();
        !is_letter(text[..at].chars().next_back()) && !is_letter(after)
    })
}
