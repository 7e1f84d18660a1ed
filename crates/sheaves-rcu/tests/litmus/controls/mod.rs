//! Small texts whose verdicts are known, with which the checker itself is tested.
//!
//! The names are those of the literature: MP is message passing, SB store buffering, LB load
//! buffering, WRC write-to-read causality, IRIW independent reads of independent writes; `+` lists
//! what orders each thread. Most verdicts are those of the tests in
//! `tools/memory-model/litmus-tests` of a kernel tree and of the paper that `model` names. The
//! others follow from a single rule of `explanation.txt` and are here because no other control
//! needs that rule. About half are each way, so that a checker with one answer fails.

mod chains;
mod pairs;
mod variables;

use crate::candidates::judge;
use crate::model::{Model, Part};
use crate::parse::parse;
use crate::program::Verdict;

/// A text in short form. Each thread has all locations and registers that controls use.
struct Control {
    name: &'static str,
    verdict: Verdict,
    threads: &'static [&'static str],
    exists: &'static str,
}

const fn control(
    name: &'static str,
    verdict: Verdict,
    threads: &'static [&'static str],
    exists: &'static str,
) -> Control {
    Control { name, verdict, threads, exists }
}

impl Control {
    /// The text in full.
    fn text(&self) -> String {
        let mut text = format!("C {}\n{{}}\n", self.name);
        for (number, body) in self.threads.iter().enumerate() {
            let head = format!("P{number}(int *x, int *y, int *z)");
            text.push_str(&format!("{head}\n{{\nint r0; int r1; int r2;\n{body}\n}}\n"));
        }
        text + &format!("exists ({})\n", self.exists)
    }

    fn judge(&self, model: Model) -> Verdict {
        let litmus = parse(&self.text());
        let verdict = litmus.and_then(|litmus| judge(&litmus, model));
        verdict.unwrap_or_else(|reason| panic!("{}: {reason}\n{}", self.name, self.text()))
    }
}

fn all() -> impl Iterator<Item = &'static Control> {
    pairs::ALL.iter().chain(chains::ALL).chain(variables::ALL)
}

#[test]
fn controls_have_their_known_verdicts() {
    let wrong: Vec<String> = all()
        .map(|control| (control, control.judge(Model::WHOLE)))
        .filter(|(control, found)| control.verdict != *found)
        .map(|(control, found)| format!("{}: {found}, not {}", control.name, control.verdict))
        .collect();
    assert!(wrong.is_empty(), "wrong verdicts:\n{}", wrong.join("\n"));
}

#[test]
fn controls_notice_each_part_that_the_model_lacks() {
    for part in Part::ALL {
        let model = Model { without: Some(part) };
        let changed: Vec<&str> = all()
            .filter(|control| control.judge(model) != control.verdict)
            .map(|control| control.name)
            .collect();
        println!("without {part:?}: {}", changed.join(", "));
        assert!(!changed.is_empty(), "no control needs {part:?}");
    }
}

#[test]
fn a_model_with_less_allows_more() {
    for part in Part::ALL {
        let model = Model { without: Some(part) };
        for control in all().filter(|control| control.verdict == Verdict::Sometimes) {
            assert_eq!(control.judge(model), Verdict::Sometimes, "{} {part:?}", control.name);
        }
    }
}
