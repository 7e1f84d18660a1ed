//! The rule about words: comments and documents say what does something.
//!
//! Threads, CPUs, leaders and waiters are *it*, never a person, the kernel has no other name, and
//! some turns of phrase have to be read twice. All are refused, in comments of Rust code and in
//! Markdown.

use crate::finding::{Finding, Kind};
use crate::repo::TextFile;

/// Words for persons.
const PERSONS: [&str; 8] =
    ["he", "him", "his", "whoever", "somebody", "nobody", "anybody", "everybody"];
/// Phrases that have to be read twice.
const PHRASES: [&str; 5] = ["so many", "so manieth", "of now", "since more than", "to be had"];

/// For a thread: it is *it*.
const WHO: &str = "who";
/// For the kernel, in comments of code.
const SYSTEM: &str = "the system";
/// What these words also mean.
const ALLOWED: [&str; 4] =
    ["people who", "the system call", "the system's allocator", "the system v abi"];
/// Documentation does not begin with these: what does it, and what is it?
const BEGINNINGS: [&str; 4] = ["Has ", "As many ", "As much ", "So long"];

/// Everything that is refused anywhere.
pub(crate) fn refused() -> impl Iterator<Item = &'static str> {
    PERSONS.into_iter().chain(PHRASES).chain([WHO])
}

pub(crate) fn check(file: &TextFile, findings: &mut Vec<Finding>) {
    let is_code = file.path.ends_with(".rs");
    if !is_code && !file.path.ends_with(".md") {
        return;
    }
    let prose: fn(&str) -> Option<&str> = if is_code { comment_of } else { |line| Some(line) };
    for (line, number) in file.text.lines().zip(1..) {
        let Some(text) = prose(line) else { continue };
        // Names in backticks are code.
        let text: String = text.split('`').step_by(2).collect::<Vec<_>>().join("`").to_lowercase();
        let text = ALLOWED.into_iter().fold(text, |text, allowed| text.replace(allowed, ""));
        let words = refused().chain(is_code.then_some(SYSTEM));
        let words = words.filter(|refused| has(&text, refused));
        let start = line.trim_start_matches([' ', '/', '!', '-', '|', '*', '#']);
        let is_prose = !is_code || is_doc(line);
        let beginning = BEGINNINGS.into_iter().find(|it| is_prose && start.starts_with(it));
        for refused in words.chain(beginning) {
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

/// Is a line one of documentation?
fn is_doc(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") || line.starts_with("//!")
}

/// Is a phrase in a text, at the boundaries of words?
fn has(text: &str, phrase: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        let after = text[at + phrase.len()..].chars().next();
        !is_letter(text[..at].chars().next_back()) && !is_letter(after)
    })
}
