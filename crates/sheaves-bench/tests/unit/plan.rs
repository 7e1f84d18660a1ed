//! Tests of `src/plan.rs`.

use super::*;
use crate::harness::table::{Contender, Part};

fn asked(part: &str) -> Args {
    Args { table: Some(part.to_owned()), ..Args::default() }
}

fn refusal(asked: &Args) -> Failure {
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
        let failure = refusal(&Args { threads: Some(threads.to_owned()), ..asked("replace") });
        assert_eq!(failure.status, 2, "{threads}");
    }
    for sizes in ["0", "7", "16385", "big", ""] {
        let list = [sizes.to_owned()];
        let failure = refusal(&Args { sizes: Some(list.to_vec()), ..asked("pair") });
        assert_eq!(failure.status, 2, "{sizes}");
    }
    let few = ["10".to_owned()];
    let failure = refusal(&Args { sizes: Some(few.to_vec()), ..asked("percpu") });
    assert!(failure.message.contains("4000000 filters"));
    let failure = refusal(&Args { sizes: Some(few.to_vec()), ..asked("counter") });
    assert!(failure.message.contains("no sizes"));
    let plot = Some("memory.svg".into());
    let failure = refusal(&Args { plot, ..asked("pair") });
    assert!(failure.status == 2 && failure.message.contains("--plot"));
    for contender in ["fastmalloc", "", "floor"] {
        let list = [contender.to_owned()];
        let failure = refusal(&Args { contenders: Some(list.to_vec()), ..asked("pair") });
        assert!(failure.status == 2 && failure.message.contains(contender), "{contender}");
    }
}

#[test]
fn a_report_is_shown_as_it_is() {
    let from = Args { from: Some("report.json".into()), ..Args::default() };
    assert_eq!(from.measures_a_table(), Ok(false));
    let table = Args { table: Some("pair".to_owned()), ..from.clone() };
    let quick = Args { quick: true, ..from.clone() };
    let threads = Args { threads: Some("2".to_owned()), ..from };
    for args in [table, quick, threads] {
        assert_eq!(args.measures_a_table().unwrap_err().status, 2, "{args:?}");
    }
    // With or without a page.
    for html in [None, Some("page.html".into())] {
        let quick = Args { quick: true, html, ..Args::default() };
        assert_eq!(quick.measures_a_table(), Ok(false));
    }
}

#[test]
fn a_part_of_a_table_can_be_asked_for() {
    assert_eq!(names("batch/shuffled/100"), ["batch/shuffled/100"]);
    assert_eq!(names("pair/8"), ["pair/8"]);
    let sizes = ["64", "1024", "64"].map(str::to_owned);
    let plan = Args { sizes: Some(sizes.to_vec()), ..asked("slabtest/2") }.plan().unwrap();
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
    let plan = Args { contenders: Some(list.to_vec()), ..asked("pair/64") }.plan().unwrap();
    let names: Vec<_> = plan.cases[0].contenders.iter().map(Contender::name).collect();
    assert_eq!(names, ["cache", "locked"]);
}

/// Each contender, in the first case that it takes part in. `tests/cxx.rs` builds the library that
/// `cxx` needs, and takes samples of all its contenders.
#[test]
fn a_sample_has_as_many_numbers_as_there_are_rows() {
    for table in tables::ALL.iter().filter(|table| table.name != "cxx") {
        let sizes =
            table.sizes.as_ref().map_or(Vec::new(), |sizes| vec![64.max(*sizes.range.start())]);
        let threads = *table.threads.range.start();
        let cases =
            (table.cases)(&Options { sizes, threads: threads.max(2), few: true, quick: true });
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
    for case in tables::ALL.iter().copied().flat_map(usual_cases) {
        for row in case.rows {
            assert!(names.insert(row.name.clone()), "{} is there twice", row.name);
        }
    }
}

#[test]
fn the_help_lists_the_tables() {
    let list = list_of_tables();
    assert_eq!(list.lines().count(), 1 + tables::ALL.len());
    assert!(list.lines().all(|line| line.len() <= 100), "{list}");
}
