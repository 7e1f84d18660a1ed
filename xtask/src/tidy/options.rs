//! The rule about options: those that the source reads are those of the table.

use std::collections::BTreeMap;

use crate::finding::{Finding, Kind};
use crate::options::{self, TABLE};
use crate::repo::TextFile;

/// How options begin; other constants that do so are no variables of the environment.
const BEGIN: &str = "\"SHEAVES_";
/// Crates whose options are a user's: not those of benchmarks and tests.
const CRATES: [&str; 8] = ["sys", "percpu", "rcu", "slab", "heap", "control", "preload", "cli"];

pub(crate) fn check(files: &[TextFile], findings: &mut Vec<Finding>) {
    let Some(table) = files.iter().find(|file| file.path == TABLE) else { return };
    let known = match options::parse(&table.text) {
        Ok(known) => known,
        Err(error) => {
            let kind = Kind::BadOption { error: error.to_string() };
            findings.push(Finding::new(TABLE, 1, kind));
            return;
        }
    };
    let mut read = BTreeMap::new();
    let is_read = |file: &&TextFile| {
        CRATES.iter().any(|name| file.path.starts_with(&format!("crates/sheaves-{name}/src/")))
    };
    for file in files.iter().filter(is_read) {
        for (name, line) in names(&file.text) {
            read.entry(name).or_insert((file.path.as_str(), line));
        }
    }
    for (name, (path, line)) in &read {
        if !known.iter().any(|option| option.name == *name) {
            let kind = Kind::OptionNotInTable { name: (*name).to_owned() };
            findings.push(Finding::new(path, *line, kind));
        }
    }
    for option in known.iter().filter(|option| !read.contains_key(option.name.as_str())) {
        let line = table.text.lines().position(|line| line.contains(&option.name)).unwrap_or(0);
        let kind = Kind::OptionNotRead { name: option.name.clone() };
        findings.push(Finding::new(TABLE, line + 1, kind));
    }
}

/// Names in quotation marks, with their lines, up to the tests of a file.
fn names(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    text.lines().zip(1..).flat_map(|(line, number)| {
        line.match_indices(BEGIN).filter_map(move |(at, _)| {
            let name = line[at + 1..].split('"').next()?;
            let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            is_name.then_some((name, number))
        })
    })
}
