//! Rules about commits: the first line names what changes and says what is done about it, the text
//! below says why.
//!
//! They hold from [`SINCE`] on, where the history is there: a shallow clone lacks it. Merges have
//! the titles that git gives them.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::finding::{Finding, Kind};
use crate::repo;

/// The last commit from before the rule.
const SINCE: &str = "cf7316e";
const TITLE_COLUMNS_MAX: usize = 72;
/// Words with which no sentence begins that says what is done.
const NO_VERBS: [&str; 20] = [
    "a", "all", "an", "another", "each", "every", "fewer", "less", "more", "new", "no", "one",
    "some", "that", "the", "three", "two", "what", "when", "who",
];

/// Between the parts of a commit, and between commits.
const PART: char = '\u{1f}';
const END: char = '\u{1e}';

/// Checks the commits of the repository.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let git = |arguments: &[&str]| {
        // Also where the checkout is another user's, as in a container.
        let mut command = Command::new("git");
        command.current_dir(root).args(["-c", "safe.directory=*"]).args(arguments);
        repo::output_of(&mut command).context("commits")
    };
    // An unpacked archive has no commits.
    if !root.join(".git").exists() {
        return Ok(findings);
    }
    git(&["rev-parse", "--git-dir"])?;
    if git(&["cat-file", "-e", &format!("{SINCE}^{{commit}}")]).is_err() {
        return Ok(findings);
    }
    let range = format!("{SINCE}..HEAD");
    let commits = git(&["log", "--no-merges", "--format=%h%x1f%s%x1f%b%x1e", &range])?;
    for commit in commits.split(END) {
        let mut parts = commit.trim_start().splitn(3, PART);
        if let (Some(hash), Some(title), Some(body)) = (parts.next(), parts.next(), parts.next()) {
            check_one(hash, title, body, &mut findings);
        }
    }
    Ok(findings)
}

/// Checks a commit: its short name, title, and text.
pub(super) fn check_one(hash: &str, title: &str, body: &str, findings: &mut Vec<Finding>) {
    let fault = if title.chars().count() > TITLE_COLUMNS_MAX {
        "is longer than 72 columns"
    } else if title.contains(';') {
        "has a semicolon"
    } else if !has_form(title) {
        "is not `subsystem: verb ...`"
    } else if body.trim().is_empty() {
        "has no text below that says why"
    } else {
        return;
    };
    let kind = Kind::BadCommit { title: title.to_owned(), fault };
    findings.push(Finding::new(&format!("commit {hash}"), 1, kind));
}

/// True of `subsystem: verb ...`, with one subsystem or several.
fn has_form(title: &str) -> bool {
    let Some((subsystems, what)) = title.split_once(": ") else { return false };
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
    };
    let mut words = what.split(' ');
    let first = words.next().unwrap_or_default();
    let is_verb = first.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
        && !first.is_empty()
        && !NO_VERBS.contains(&first);
    subsystems.split(", ").all(is_name) && is_verb && words.next().is_some()
}
