//! What the command line asks for: a table or a part of one, and which contenders.

use crate::harness::failure::Failure;
use crate::harness::run::Plan;
use crate::harness::table::{Case, Options, Table};
use crate::tables;

/// What was asked for, as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) part: &'a str,
    pub(crate) quick: bool,
    /// All sizes even so.
    pub(crate) all_sizes: bool,
    pub(crate) threads: Option<&'a str>,
    pub(crate) sizes: Option<&'a [String]>,
    pub(crate) contenders: Option<&'a [String]>,
}

impl Asked<'_> {
    /// The plan after all checks.
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        let Request { table, prefix } = Request::parse(self.part)?;
        let options = Options {
            sizes: self.sizes(table)?,
            threads: self.threads(table)?,
            // Where more than a table is named, what is named is meant.
            few: self.quick && !prefix.contains('/'),
        };
        let mut cases = table.cases(&options);
        cases.retain(|case| case.rows.iter().any(|row| admits(&prefix, &row.name)));
        if cases.is_empty() {
            return Err(Failure::usage(format!("no workload is called '{}'", self.part)));
        }
        if let Some(list) = self.contenders {
            select(&mut cases, list)?;
        }
        let effort = table.effort(self.quick);
        Ok(Plan { title: self.part.to_owned(), table, cases, effort })
    }

    fn threads(&self, table: &dyn Table) -> Result<usize, Failure> {
        let known = table.threads();
        let Some(text) = self.threads else { return Ok(known.usual) };
        match text.parse() {
            Ok(threads) if known.range.contains(&threads) => Ok(threads),
            _ => {
                let (low, high) = (known.range.start(), known.range.end());
                Err(Failure::usage(format!("--threads {text}: expected {low} to {high}")))
            }
        }
    }

    fn sizes(&self, table: &dyn Table) -> Result<Vec<usize>, Failure> {
        let Some(known) = table.sizes() else {
            let refusal = || Failure::usage(format!("--sizes: {} has no sizes", table.name()));
            return if self.sizes.is_some() { Err(refusal()) } else { Ok(Vec::new()) };
        };
        let parse = |text: &str| text.trim().parse().ok().filter(|size| known.range.contains(size));
        if let Some(list) = self.sizes {
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
        match self.part.trim_end_matches('/').rsplit_once('/').and_then(|(_, last)| parse(last)) {
            Some(size) => Ok(vec![size]),
            None if self.quick && !self.all_sizes => Ok(known.quick.to_vec()),
            None => Ok(known.full.to_vec()),
        }
    }
}

/// A table, and what the names of its rows have to begin with.
struct Request {
    table: &'static dyn Table,
    /// Whole parts of a name; empty for all rows.
    prefix: String,
}

impl Request {
    /// Reads `TABLE`, `TABLE/VARIANT` or `TABLE/VARIANT/SIZE`. Where rows do not begin with the
    /// name of their table, it can be given or not.
    fn parse(text: &str) -> Result<Request, Failure> {
        let text = text.trim_end_matches('/');
        let (first, rest) = text.split_once('/').unwrap_or((text, ""));
        let begins = |case: &Case| admits(first, case.name());
        let has_rows = |table: &&&dyn Table| usual_cases(**table).iter().any(begins);
        if let Some(table) = tables::ALL.iter().find(has_rows).filter(|_| !first.is_empty()) {
            return Ok(Request { table: *table, prefix: text.to_owned() });
        }
        if let Some(table) = tables::ALL.iter().find(|table| table.name() == first) {
            return Ok(Request { table: *table, prefix: rest.to_owned() });
        }
        let known = tables::names();
        Err(Failure::usage(format!("unknown table '{text}' (there are: {known})")))
    }
}

/// Whether a name begins with these parts.
fn admits(prefix: &str, name: &str) -> bool {
    prefix.is_empty()
        || name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The cases of a table, as far as their names do not depend on the command line.
fn usual_cases(table: &dyn Table) -> Vec<Case> {
    let sizes = table.sizes().map_or(Vec::new(), |sizes| sizes.quick.to_vec());
    table.cases(&Options { sizes, threads: table.threads().usual, few: false })
}

/// Keeps the contenders that a list names, with all their modes or in one.
fn select(cases: &mut Vec<Case>, list: &[String]) -> Result<(), Failure> {
    let all: Vec<Case> = tables::ALL.into_iter().flat_map(usual_cases).collect();
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

/// The contenders of these cases, each once.
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
mod tests {
    use super::*;
    use crate::harness::table::{Contender, Part};

    fn asked(part: &str) -> Asked<'_> {
        Asked { part, quick: false, all_sizes: false, threads: None, sizes: None, contenders: None }
    }

    fn refusal(asked: &Asked<'_>) -> Failure {
        asked.plan().err().expect("a refusal")
    }

    fn names(part: &str) -> Vec<String> {
        let cases = asked(part).plan().unwrap().cases;
        cases.iter().map(|case| case.name().to_owned()).collect()
    }

    #[test]
    fn bad_input_is_refused() {
        for part in ["nonsense", "", "/", "pairs/64", "batch/sideways", "pair/7", "batch-alloc"] {
            let failure = refusal(&asked(part));
            assert!(failure.status == 2 && !failure.message.contains('\n'), "{part}");
        }
        assert!(refusal(&asked("pairs/64")).message.contains("slabtest"));
        for threads in ["0", "-1", "many", "100000", ""] {
            let failure = refusal(&Asked { threads: Some(threads), ..asked("replace") });
            assert_eq!(failure.status, 2, "{threads}");
        }
        for sizes in ["0", "7", "16385", "big", ""] {
            let list = [sizes.to_owned()];
            let failure = refusal(&Asked { sizes: Some(&list), ..asked("pair") });
            assert_eq!(failure.status, 2, "{sizes}");
        }
        let few = ["10".to_owned()];
        let failure = refusal(&Asked { sizes: Some(&few), ..asked("percpu") });
        assert!(failure.message.contains("4000000 filters"));
        let failure = refusal(&Asked { sizes: Some(&few), ..asked("counter") });
        assert!(failure.message.contains("no sizes"));
        for contender in ["fastmalloc", "", "floor"] {
            let list = [contender.to_owned()];
            let failure = refusal(&Asked { contenders: Some(&list), ..asked("pair") });
            assert!(failure.status == 2 && failure.message.contains(contender), "{contender}");
        }
    }

    #[test]
    fn a_part_of_a_table_can_be_asked_for() {
        assert_eq!(names("batch/shuffled/100"), ["batch/shuffled/100"]);
        assert_eq!(names("pair/8"), ["pair/8"]);
        let sizes = ["64", "1024", "64"].map(str::to_owned);
        let plan = Asked { sizes: Some(&sizes), ..asked("pair") }.plan().unwrap();
        assert_eq!(plan.cases.len(), 2);
        assert!(names("slabtest").contains(&"slabtest/2/64".to_owned()));
        assert!(names("counter/sum").contains(&"counter/sum/64".to_owned()));
    }

    #[test]
    fn the_name_of_a_table_can_be_left_out() {
        for part in ["percpu/tc/64k/5000", "tc/64k/5000", "tc/64k/5000/"] {
            assert_eq!(names(part), ["tc/64k/5000"], "{part}");
        }
        assert!(names("tc").iter().all(|name| name.starts_with("tc/")));
        assert!(names("percpu").contains(&"concurrent/2t".to_owned()));
        assert_eq!(names("10x1000"), ["10x1000"]);
    }

    #[test]
    fn contenders_keep_the_printed_order() {
        let list = ["locked".to_owned(), "cache".to_owned(), "V50".to_owned()];
        let plan = Asked { contenders: Some(&list), ..asked("pair/64") }.plan().unwrap();
        let names: Vec<_> = plan.cases[0].contenders.iter().map(Contender::name).collect();
        assert_eq!(names, ["cache", "locked"]);
    }

    /// Each contender, in the first case that it takes part in.
    #[test]
    fn a_sample_has_as_many_numbers_as_there_are_rows() {
        for table in tables::ALL {
            let sizes =
                table.sizes().map_or(Vec::new(), |sizes| vec![64.max(*sizes.range.start())]);
            let threads = *table.threads().range.start();
            let cases = table.cases(&Options { sizes, threads: threads.max(2), few: true });
            let mut seen = Vec::new();
            for case in &cases {
                for contender in &case.contenders {
                    let (Part::Takes(make), None) = (&contender.part, contender.mode) else {
                        continue;
                    };
                    if seen.contains(&contender.family) {
                        continue;
                    }
                    seen.push(contender.family);
                    let values = make().unwrap().sample().unwrap();
                    assert_eq!(values.len(), case.rows.len(), "{}", case.name());
                    assert!(values.iter().all(|value| value.is_nan() || *value >= 0.0));
                }
            }
        }
    }

    #[test]
    fn names_of_rows_are_unique() {
        let mut names = std::collections::HashSet::new();
        for case in tables::ALL.into_iter().flat_map(usual_cases) {
            for row in case.rows {
                assert!(names.insert(row.name.clone()), "{} is there twice", row.name);
            }
        }
    }
}
