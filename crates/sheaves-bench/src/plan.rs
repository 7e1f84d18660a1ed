//! What the command line asks for: a table or a part of one, and which contenders.

use clap::Args as ClapArgs;

use crate::harness::{Case, Failure, Options, Plan, Table};
use crate::tables;

/// Compares Sheaves with other ways to allocate, to count, to read and to wait.
///
/// Contenders take turns in random order, sample by sample, in one process. Printed are the median
/// and the 10th and 90th percentile.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(after_help = list_of_tables())]
pub struct Args {
    /// One of the tables below, or a part of one, as in batch/shuffled/64
    #[arg(value_name = "TABLE")]
    pub table: Option<String>,

    /// Take fewer sizes and samples; without TABLE, compare with glibc and show the result of 2011
    #[arg(long)]
    pub quick: bool,

    /// Threads of the tables that have several; for `synchronize` the most that register
    #[arg(long, value_name = "N")]
    pub threads: Option<String>,

    /// Also write the report to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<std::path::PathBuf>,

    /// Also draw memory over time to FILE, as SVG (table `footprint`)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<std::path::PathBuf>,

    /// Also write a page with plots, figures and the report to FILE, as HTML
    #[arg(long, value_name = "FILE")]
    pub html: Option<std::path::PathBuf>,

    /// Measure nothing, show the report FILE that --json has written
    #[arg(long, value_name = "FILE")]
    pub from: Option<std::path::PathBuf>,

    /// Only these sizes, separated by commas: bytes, or what the table says
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub sizes: Option<Vec<String>>,

    /// Only these contenders, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub contenders: Option<Vec<String>>,

    /// Serve one mode of a contender to the process that started this one
    #[arg(long, hide = true, value_name = "MODE")]
    pub serve: Option<String>,
}

fn list_of_tables() -> String {
    let line = |table: &&Table| format!("  {:12} {}\n", table.name, table.about);
    format!("Tables:\n{}", tables::ALL.iter().map(line).collect::<String>())
}

impl Args {
    /// Whether a table is measured: not with `--from`, and not for what `--quick` shows without a
    /// table.
    pub(crate) fn measures_a_table(&self) -> Result<bool, Failure> {
        let has_choice =
            self.contenders.is_some() || self.sizes.is_some() || self.threads.is_some();
        if self.from.is_none() {
            return Ok(self.table.is_some() || !self.quick || has_choice || self.plot.is_some());
        }
        if self.table.is_some() || self.quick || has_choice {
            return Err(Failure::usage("--from shows a whole report: nothing else can be chosen"));
        }
        Ok(false)
    }

    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        let Some(part) = &self.table else {
            let tables = tables::names();
            return Err(Failure::usage(format!("no table given (there are: {tables})")));
        };
        let (table, prefix) = find(part)?;
        if self.plot.is_some() && !table.has_plot {
            return Err(Failure::usage(format!("--plot: {} draws nothing", table.name)));
        }
        let options = Options {
            sizes: self.sizes(table, part)?,
            threads: self.threads(table)?,
            // Where more than a table is named, what is named is meant.
            few: self.quick && !prefix.contains('/'),
            quick: self.quick,
        };
        let mut cases = (table.cases)(&options);
        cases.retain(|case| case.rows.iter().any(|row| admits(prefix, &row.name)));
        if cases.is_empty() {
            return Err(Failure::usage(format!("no workload is called '{part}'")));
        }
        if let Some(list) = &self.contenders {
            select(&mut cases, list)?;
        }
        Ok(Plan {
            title: part.clone(),
            table,
            cases,
            effort: table.effort[usize::from(self.quick)],
            is_traced: table.has_plot && (self.plot.is_some() || self.html.is_some()),
        })
    }

    fn threads(&self, table: &Table) -> Result<usize, Failure> {
        let known = &table.threads;
        let Some(text) = &self.threads else { return Ok(known.usual) };
        match text.parse() {
            Ok(threads) if known.range.contains(&threads) => Ok(threads),
            _ => {
                let (low, high) = (known.range.start(), known.range.end());
                Err(Failure::usage(format!("--threads {text}: expected {low} to {high}")))
            }
        }
    }

    fn sizes(&self, table: &Table, part: &str) -> Result<Vec<usize>, Failure> {
        let Some(known) = &table.sizes else {
            let refusal = || Failure::usage(format!("--sizes: {} has no sizes", table.name));
            return if self.sizes.is_some() { Err(refusal()) } else { Ok(Vec::new()) };
        };
        let parse = |text: &str| text.trim().parse().ok().filter(|size| known.range.contains(size));
        if let Some(list) = &self.sizes {
            let refusal = |text: &str| {
                let (low, high, unit) = (known.range.start(), known.range.end(), known.unit);
                Failure::usage(format!("--sizes {text}: expected {low} to {high} {unit}"))
            };
            let sizes = list.iter().map(|text| parse(text).ok_or_else(|| refusal(text)));
            let mut sizes = sizes.collect::<Result<Vec<usize>, Failure>>()?;
            sizes.sort_unstable();
            sizes.dedup();
            return Ok(sizes);
        }
        // A size in the part that is asked for is meant, be it one of the usual ones or not.
        match part.trim_end_matches('/').rsplit_once('/').and_then(|(_, last)| parse(last)) {
            Some(size) => Ok(vec![size]),
            None if self.quick => Ok(known.quick.to_vec()),
            None => Ok(known.full.to_vec()),
        }
    }
}

/// Reads `TABLE`, `TABLE/VARIANT` or `TABLE/VARIANT/SIZE`: the table, and what the names of rows
/// have to begin with. Where rows do not begin with the name of their table, it can be given or
/// not.
fn find(text: &str) -> Result<(&'static Table, &str), Failure> {
    let text = text.trim_end_matches('/');
    let (first, rest) = text.split_once('/').unwrap_or((text, ""));
    let has_rows = |table: &&Table| {
        !first.is_empty() && usual_cases(table).iter().any(|case| admits(first, case.name()))
    };
    if let Some(table) = tables::ALL.iter().copied().find(has_rows) {
        return Ok((table, text));
    }
    if let Some(table) = tables::ALL.iter().copied().find(|table| table.name == first) {
        return Ok((table, rest));
    }
    let known = tables::names();
    Err(Failure::usage(format!("unknown table '{text}' (there are: {known})")))
}

/// Whether a name begins with these parts.
fn admits(prefix: &str, name: &str) -> bool {
    prefix.is_empty()
        || name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The cases of a table, as far as their names do not depend on the command line.
fn usual_cases(table: &Table) -> Vec<Case> {
    let sizes = table.sizes.as_ref().map_or(Vec::new(), |sizes| sizes.quick.to_vec());
    (table.cases)(&Options { sizes, threads: table.threads.usual, few: false, quick: false })
}

/// Keeps the contenders that a list names, with all their modes or in one.
fn select(cases: &mut Vec<Case>, list: &[String]) -> Result<(), Failure> {
    let all: Vec<Case> = tables::ALL.iter().copied().flat_map(usual_cases).collect();
    let (known, there) = (families(&all), families(&*cases));
    let family = |name: &str| name.split('@').next().unwrap_or_default().to_owned();
    for name in list {
        if !known.contains(&family(name).as_str()) {
            let hint =
                if cfg!(feature = "peers") { "" } else { "; others need the feature `peers`" };
            let known = known.join(", ");
            return Err(Failure::usage(format!(
                "unknown contender '{name}' (there are: {known}{hint})"
            )));
        }
    }
    for case in cases.iter_mut() {
        case.contenders.retain(|contender| {
            list.iter().any(|name| name == contender.family || *name == contender.name())
        });
    }
    cases.retain(|case| !case.contenders.is_empty());
    if cases.is_empty() {
        let (asked, there) = (list.join(", "), there.join(", "));
        return Err(Failure::usage(format!(
            "none of these contenders takes part in this table: {asked} (there are: {there})"
        )));
    }
    Ok(())
}

fn families<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Vec<&'static str> {
    let mut families = Vec::new();
    for contender in cases.into_iter().flat_map(|case| &case.contenders) {
        if !families.contains(&contender.family) {
            families.push(contender.family);
        }
    }
    families
}

#[cfg(test)]
#[path = "../tests/unit/plan.rs"]
mod tests;
