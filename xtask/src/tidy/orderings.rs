//! Rules about memory orderings: each access that orders others names its partner, and each
//! `Relaxed` says why it suffices.
//!
//! A comment applies to an ordering on its line or within six lines below its last line; a comment
//! of several lines counts as a whole. A comment that says `Relaxed, here and below: ...` or
//! `Relaxed, all: ...` applies to the rest of its function. A comment may end in a label like
//! `[R1]`, which must occur at least twice in the crate: at both ends of the pair.

use std::collections::{BTreeMap, BTreeSet};

use super::place::{self, TestModules};
use super::rust::{Comment, RustFile, TokenKind};
use crate::finding::{Finding, Kind};

/// How far below its comment an ordering may be, in lines.
const COMMENT_REACH_LINES: usize = 6;

/// Orderings that need a partner.
const PAIRED: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];
/// The ordering that needs a reason.
const RELAXED: &str = "Relaxed";
/// Words, one of which the comment on a paired ordering contains.
const PAIR_WORDS: [&str; 5] = ["Acquire", "Release", "AcqRel", "SeqCst", "pairs"];
/// Words, one of which the comment on a relaxed access contains.
const RELAXED_WORDS: [&str; 2] = ["Relaxed", "relaxed"];
/// Words, one of which the comment on all relaxed accesses of a function contains.
const RELAXED_WORDS_OF_FUNCTION: [&str; 2] = ["Relaxed, here and below", "Relaxed, all"];

pub(crate) fn check(source: &RustFile, findings: &mut Vec<Finding>) {
    let names = Names::of(source);
    for (index, token) in source.tokens.iter().enumerate() {
        if token.kind != TokenKind::Word
            || source.is_test_line(token.line)
            || source.is_in_use_item(index)
        {
            continue;
        }
        let before = source.text_at(index.checked_sub(1));
        let ordering = if before == "::" {
            let owner = source.text_at(index.checked_sub(2));
            names.types.contains(owner).then_some(token.text.as_str())
        } else if before == "." {
            None
        } else {
            names.bare.get(token.text.as_str()).copied()
        };
        let Some(ordering) = ordering else { continue };
        let kind = if ordering == RELAXED {
            if is_explained(source, token.line, &RELAXED_WORDS)
                || is_explained_above_in_function(source, token.line)
            {
                continue;
            }
            Kind::RelaxedWithoutReason
        } else if PAIRED.contains(&ordering) {
            if is_explained(source, token.line, &PAIR_WORDS) {
                continue;
            }
            Kind::OrderingWithoutPartner { ordering: ordering.to_owned() }
        } else {
            continue;
        };
        findings.push(Finding::new(&source.path, token.line, kind));
    }
}

/// The names of orderings in a file.
struct Names<'source> {
    /// The enum itself, under every name.
    types: BTreeSet<&'source str>,
    /// Imported variants: the name in this file, and the variant.
    bare: BTreeMap<&'source str, &'source str>,
}

impl<'source> Names<'source> {
    fn of(source: &'source RustFile) -> Self {
        let mut names = Self { types: BTreeSet::from(["Ordering"]), bare: BTreeMap::new() };
        for import in &source.imports {
            let mut reversed = import.path.iter().rev().map(String::as_str);
            let (last, owner) = (reversed.next().unwrap_or(""), reversed.next().unwrap_or(""));
            match (owner, last) {
                (_, "Ordering") | ("Ordering", "self") => {
                    names.types.insert(&import.name);
                }
                ("Ordering", "*") => {
                    names.bare.extend(PAIRED.into_iter().chain([RELAXED]).map(|name| (name, name)));
                }
                ("Ordering", _) => {
                    names.bare.insert(&import.name, last);
                }
                _ => {}
            }
        }
        names
    }
}

/// True when a comment near `line` contains one of `words`.
fn is_explained(source: &RustFile, line: usize, words: &[&str]) -> bool {
    let comments = &source.comments;
    let after = comments.partition_point(|comment| comment.line <= line);
    let mut reach_from = line.saturating_sub(COMMENT_REACH_LINES);
    for comment in comments[..after].iter().rev() {
        if comment.line < reach_from {
            break;
        }
        if words.iter().any(|word| comment.text.contains(word)) {
            return true;
        }
        // The line above belongs to the same comment if it has one.
        reach_from = reach_from.min(comment.line - 1);
    }
    false
}

/// True when a comment above in the same function gives the reason for all relaxed accesses.
fn is_explained_above_in_function(source: &RustFile, line: usize) -> bool {
    source.function_lines().filter(|lines| lines.contains(&line)).any(|lines| {
        source.comments.iter().any(|comment| {
            (*lines.start()..=line).contains(&comment.line)
                && RELAXED_WORDS_OF_FUNCTION.iter().any(|words| comment.text.contains(words))
        })
    })
}

/// Checks that each label occurs at least twice in its crate.
pub(crate) fn check_labels(
    sources: &[RustFile],
    test_modules: &TestModules,
    findings: &mut Vec<Finding>,
) {
    let mut places: BTreeMap<(&str, &str), Vec<(&str, usize)>> = BTreeMap::new();
    for source in sources {
        let Some(name) = place::crate_of(&source.path) else { continue };
        if !place::is_library_code(&source.path) || test_modules.holds(&source.path) {
            continue;
        }
        for comment in &source.comments {
            for label in labels_in(comment) {
                places.entry((name, label)).or_default().push((&source.path, comment.line));
            }
        }
    }
    for ((_, label), places) in places {
        if let [(path, line)] = places.as_slice() {
            let kind = Kind::LabelWithoutPartner { label: label.to_owned() };
            findings.push(Finding::new(path, *line, kind));
        }
    }
}

/// Labels like `[R1]`: capital letters, then digits, in brackets.
fn labels_in(comment: &Comment) -> impl Iterator<Item = &str> {
    comment.text.split('[').skip(1).filter_map(|rest| {
        let (label, after) = rest.split_once(']')?;
        let digits = label.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let is_label = !digits.is_empty()
            && digits.len() < label.len()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !after.starts_with(['(', '[']);
        is_label.then_some(label)
    })
}
