//! The rule about twins: six lines of library code that occur twice become one function, or are
//! explained in the list [`LIST`].
//!
//! Lines are compared as tokens, so white space and comments do not count; attributes and `use`
//! items do not either. Signatures and lone brackets must be equal within a run, but are none of
//! its six lines. A line of the list names two places, each by file and function, and says after a
//! colon why both stay; one that names no twin any more is refused.

use core::fmt::Write as _;
use std::collections::{BTreeMap, BTreeSet};

use super::place::{self, TestModules};
use super::rust::{RustFile, TokenKind};
use crate::finding::{Finding, Kind};
use crate::repo::TextFile;

/// The twins that stay, and why.
pub(crate) const LIST: &str = "xtask/twins.txt";
/// Equal lines that make a twin.
const LINES_MIN: usize = 6;
/// Words before the name of a place.
const NAMING_WORDS: [&str; 6] = ["fn", "macro_rules", "struct", "enum", "union", "trait"];

/// One line of code.
struct Line<'source> {
    source: &'source RustFile,
    number: usize,
    text: String,
    /// False for a part of a signature, and for brackets alone.
    counts: bool,
}

/// Two places that share lines.
pub(crate) struct Twin {
    /// Where: the place in the list, and the file and first line.
    places: [(String, String, usize); 2],
    /// How many windows of [`LINES_MIN`] lines they share.
    windows: usize,
}

impl Twin {
    fn entry(&self) -> String {
        format!("{} {}", self.places[0].0, self.places[1].0)
    }

    /// Both places with their lines, then the start of their line in the list.
    pub(crate) fn report(&self) -> String {
        let [(_, a, a_line), (_, b, b_line)] = &self.places;
        let lines = self.windows + LINES_MIN - 1;
        format!("{a}:{a_line} {b}:{b_line}: {lines} equal lines\n    {}:", self.entry())
    }
}

pub(crate) fn check(
    files: &[TextFile],
    sources: &[RustFile],
    tests: &TestModules,
    findings: &mut Vec<Finding>,
) {
    let list = files.iter().find(|file| file.path == LIST).map_or("", |file| file.text.as_str());
    let mut unused = BTreeMap::new();
    for (line, number) in list.lines().zip(1..).filter(|(line, _)| !line.starts_with('#')) {
        match line.split_once(": ") {
            Some((entry, why)) if !why.is_empty() => _ = unused.insert(entry.to_owned(), number),
            _ => findings.push(Finding::new(LIST, number, Kind::TwinUnexplained)),
        }
    }
    let explained: BTreeSet<String> = unused.keys().cloned().collect();
    for twin in find(sources, tests) {
        let entry = twin.entry();
        unused.remove(&entry);
        if !explained.contains(&entry) {
            let [(_, file, line), (_, other, other_line)] = &twin.places;
            let other = format!("{other}:{other_line}");
            findings.push(Finding::new(file, *line, Kind::Twin { other, entry }));
        }
    }
    for (entry, number) in unused {
        findings.push(Finding::new(LIST, number, Kind::TwinGone { entry }));
    }
}

/// All twins of the library crates, explained or not. Of three places the first is paired with each
/// other one.
pub(crate) fn find(sources: &[RustFile], tests: &TestModules) -> Vec<Twin> {
    let library = sources.iter().filter(|source| place::is_library_code(&source.path));
    let lines: Vec<Vec<Line<'_>>> =
        library.filter(|source| !tests.holds(&source.path)).map(lines_of).collect();
    let mut windows: BTreeMap<String, Vec<(&[Line<'_>], usize)>> = BTreeMap::new();
    for lines in &lines {
        for start in (0..lines.len()).filter(|start| lines[*start].counts) {
            let counted = (start..lines.len()).filter(|at| lines[*at].counts);
            let Some(end) = counted.take(LINES_MIN).nth(LINES_MIN - 1) else { continue };
            let texts: Vec<&str> = lines[start..=end].iter().map(|l| l.text.as_str()).collect();
            windows.entry(texts.join("\n")).or_default().push((&lines[start..=end], start));
        }
    }
    let mut twins: BTreeMap<String, Twin> = BTreeMap::new();
    for places in windows.values() {
        let (first, first_start) = places[0];
        for (other, start) in &places[1..] {
            let is_one_file = core::ptr::eq(first[0].source, other[0].source);
            if is_one_file && *start < first_start + first.len() {
                continue;
            }
            let places = [first, other].map(|window| {
                let Line { source, number, .. } = &window[0];
                (place_of(source, *number), source.path.clone(), *number)
            });
            let twin = Twin { places, windows: 1 };
            twins
                .entry(twin.entry())
                .and_modify(|known| {
                    known.windows += 1;
                    if twin.places[0].2 < known.places[0].2 {
                        known.places.clone_from(&twin.places);
                    }
                })
                .or_insert(twin);
        }
    }
    twins.into_values().collect()
}

/// The lines of code of a file, without what does not count at all.
fn lines_of(source: &RustFile) -> Vec<Line<'_>> {
    let mut texts: BTreeMap<usize, (String, bool)> = BTreeMap::new();
    let mut signature_until = 0;
    let mut index = 0;
    while let Some(token) = source.tokens.get(index) {
        let next = source.text_at(Some(index + 1));
        if token.text == "#" && matches!(next, "[" | "!") {
            index = source.end_of_group(index + 1 + usize::from(next == "!"));
        } else if token.text == "use" && next != "<" {
            texts.remove(&token.line);
            let tokens = source.tokens[index..].iter();
            index += tokens.take_while(|token| token.text != ";").count() + 1;
            continue;
        } else {
            if token.text == "fn" && source.tokens.get(index + 1).is_some_and(|n| n.is_word()) {
                signature_until = source.end_of_signature(index);
                texts.entry(token.line).or_default().1 = false;
            }
            let (text, counts) = texts.entry(token.line).or_default();
            _ = write!(text, "{} ", token.text);
            let is_code = matches!(token.kind, TokenKind::Word | TokenKind::Literal);
            *counts |= is_code && index > signature_until;
        }
        index += 1;
    }
    let code = texts.into_iter().filter(|(number, _)| !source.is_test_line(*number));
    code.map(|(number, (text, counts))| Line { source, number, text, counts }).collect()
}

/// A place as the list names it: the file, and the function, macro or type above the line.
fn place_of(source: &RustFile, line: usize) -> String {
    let above = source.tokens.iter().enumerate().rev().filter(|(_, token)| token.line <= line);
    let mut names = above.filter_map(|(index, token)| {
        let after = if token.text == "macro_rules" { 2 } else { 1 };
        let name = source.tokens.get(index + after).filter(|name| name.is_word())?;
        NAMING_WORDS.contains(&token.text.as_str()).then_some(name.text.as_str())
    });
    format!("{}#{}", source.path, names.next().unwrap_or(""))
}
