//! Rules about the shape of code: the length of functions, words that mean nothing in names, and
//! unit tests in the place for them.
//!
//! Both read tokens, not items, so that functions and types inside a macro count as well.

use super::rust::{RustFile, TokenKind};
use crate::finding::{Finding, Kind};
use crate::repo::TextFile;

/// Longest function in lines, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Words that say nothing about what a thing does.
const EMPTY_WORDS: [&str; 6] = ["util", "utils", "helper", "helpers", "manager", "impl2"];

/// Words before a name that the rule about names checks.
const NAMING_WORDS: [&str; 7] = ["fn", "struct", "enum", "union", "trait", "mod", "type"];

/// Applies the rule about names to the parts of a path.
pub(crate) fn check_path(file: &TextFile, findings: &mut Vec<Finding>) {
    for part in file.path.split('/') {
        let stem = part.split('.').find(|piece| !piece.is_empty()).unwrap_or(part);
        if let Some(word) = empty_word(stem) {
            let name = part.to_owned();
            findings.push(Finding::new(&file.path, 1, Kind::BannedName { name, word }));
        }
    }
}

pub(crate) fn check(source: &RustFile, findings: &mut Vec<Finding>) {
    let mut report = |line, kind| findings.push(Finding::new(&source.path, line, kind));
    for (index, pair) in source.tokens.windows(2).enumerate() {
        let [word, name] = pair else { continue };
        if word.kind != TokenKind::Word || name.kind != TokenKind::Word {
            continue;
        }
        if NAMING_WORDS.contains(&word.text.as_str())
            && let Some(empty) = empty_word(&name.text)
        {
            report(name.line, Kind::BannedName { name: name.text.clone(), word: empty });
        }
        if word.text == "mod"
            && name.text == "tests"
            && source.text_at(Some(index + 2)) == "{"
            && source.path.contains("/src/")
        {
            report(word.line, Kind::InlineTests);
        }
        if word.text == "fn"
            && let Some(end_line) = source.end_of_body(index)
        {
            let lines = end_line - word.line + 1;
            if lines > FUNCTION_LINES_MAX {
                let name = name.text.clone();
                let lines_max = FUNCTION_LINES_MAX;
                report(word.line, Kind::FunctionTooLong { name, lines, lines_max });
            }
        }
    }
}

/// The empty word in a name in snake, kebab or camel case.
fn empty_word(name: &str) -> Option<&'static str> {
    let mut words = String::new();
    let mut before = '_';
    for c in name.chars() {
        if c.is_uppercase() && before.is_lowercase() {
            words.push('_');
        }
        words.extend(c.to_lowercase());
        before = c;
    }
    EMPTY_WORDS.into_iter().find(|empty| words.split(['_', '-']).any(|word| word == *empty))
}
