//! The report of a run: rows, ratios between them, and the bars that they are held against.
//!
//! The report is what the JSON file contains, field by field; the printed tables are made from it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Failure, Machine, Summary};

const SCHEMA: &str = "sheaves-bench/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) schema: String,
    pub(crate) table: String,
    /// What it measures, as a sentence; empty in reports of other programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) about: String,
    /// Where another program has measured and does not say, it was here.
    #[serde(default = "Machine::this")]
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Figure>,
    #[serde(default)]
    pub(crate) ratios: Vec<Ratio>,
    #[serde(default)]
    pub(crate) bars: Vec<Judgement>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<LeftOut>,
    /// Whether a bar was not judged because not all peers took part.
    #[serde(skip)]
    pub(crate) bars_withheld: bool,
    /// What the run has printed.
    #[serde(skip)]
    pub(crate) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) contender: String,
    /// As the end of a sentence.
    pub(crate) reason: String,
    pub(crate) workloads: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) workload: String,
    pub(crate) contender: String,
    pub(crate) unit: String,
    #[serde(flatten)]
    pub(crate) summary: Summary,
    /// Where the text has it.
    pub(crate) shown: Shown,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<Value>,
    /// Whether this is one of two modes of a contender, of which the better one has another row.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) is_mode: bool,
    /// Whether the contender is Sheaves.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) is_ours: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) heading: String,
    pub(crate) column: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size_unit: Option<String>,
    pub(crate) divisor: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) workload: String,
    pub(crate) of: String,
    pub(crate) to: String,
    #[serde(flatten)]
    pub(crate) summary: Summary,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Judgement {
    pub(crate) workload: String,
    pub(crate) contender: String,
    pub(crate) versus: String,
    pub(crate) ratio: f64,
    pub(crate) at_most: Option<f64>,
    pub(crate) verdict: Option<String>,
}

impl Judgement {
    pub(crate) fn new(
        workload: &str,
        contender: &str,
        versus: &str,
        ratio: f64,
        at_most: Option<f64>,
    ) -> Judgement {
        let verdict = |at_most: f64| if ratio <= at_most { "PASS" } else { "MISS" };
        Judgement {
            workload: workload.to_owned(),
            contender: contender.to_owned(),
            versus: versus.to_owned(),
            ratio,
            at_most,
            verdict: at_most.map(|at_most| verdict(at_most).to_owned()),
        }
    }
}

impl Report {
    pub(crate) fn new(table: &str) -> Report {
        Report {
            schema: SCHEMA.to_owned(),
            table: table.to_owned(),
            about: String::new(),
            machine: Machine::this(),
            rows: Vec::new(),
            ratios: Vec::new(),
            bars: Vec::new(),
            left_out: Vec::new(),
            bars_withheld: false,
            text: String::new(),
        }
    }

    pub(crate) fn absorb(&mut self, other: Report) {
        self.table = format!("{}, {}", self.table, other.table);
        self.rows.extend(other.rows);
        self.ratios.extend(other.ratios);
        self.bars.extend(other.bars);
        self.left_out.extend(other.left_out);
        self.bars_withheld |= other.bars_withheld;
    }

    pub(crate) fn leave_out(&mut self, case: &str, contender: &str, reason: &str) {
        let same = |left: &&mut LeftOut| left.contender == contender && left.reason == reason;
        match self.left_out.iter_mut().find(same) {
            Some(left_out) => left_out.workloads.push(case.to_owned()),
            None => self.left_out.push(LeftOut {
                contender: contender.to_owned(),
                reason: reason.to_owned(),
                workloads: vec![case.to_owned()],
            }),
        }
    }

    pub(crate) fn row(&self, workload: &str, contender: &str) -> Option<&Figure> {
        self.rows.iter().find(|row| row.workload == workload && row.contender == contender)
    }

    /// The rows of a printed table: of a contender in two modes the better one only.
    pub(crate) fn rows_of<'r>(&'r self, heading: &'r str) -> impl Iterator<Item = &'r Figure> {
        self.rows.iter().filter(move |row| row.shown.heading == heading && !row.is_mode)
    }

    /// The printed tables, in the order in which they were begun.
    pub(crate) fn headings(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.shown.heading.as_str()))
    }

    /// Reads what [`Report::to_json`] has written.
    pub(crate) fn from_json(text: &str) -> Result<Report, String> {
        let report: Report =
            serde_json::from_str(text).map_err(|error| format!("no report: {error}"))?;
        match report.schema.as_str() {
            SCHEMA => Ok(report),
            other => Err(format!("a report of {other} instead of {SCHEMA}")),
        }
    }

    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Failure::run(format!("no JSON: {error}")))
    }
}

/// The names in the order in which they come first.
pub(crate) fn distinct<'r>(names: impl Iterator<Item = &'r str>) -> Vec<&'r str> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

#[cfg(test)]
#[path = "../../tests/unit/harness_report.rs"]
pub(crate) mod tests;
