//! The report of a run: rows, ratios between them, and the bars that they are held against.
//!
//! The report is what the JSON file contains, field by field; the printed tables are made from it.

pub(crate) mod bars;
pub(crate) mod demonstration;
mod duels;
#[cfg(test)]
mod example;
pub(crate) mod machine;
mod measured;
mod rcu;
mod reclaim;
pub(crate) mod text;
pub(crate) mod work;

use serde::{Deserialize, Serialize};

use crate::contender::{Kind, Role, family};
use crate::failure::Failure;
use crate::measure::Series;
use crate::stats::{Summary, geometric_mean, paired_ratio, summarize};
use crate::workload::name::Name;
use crate::workload::{self, Job};
use bars::{Judgement, Versus};
use machine::Machine;
use work::Work;

/// Name and version of the file format.
pub(crate) const SCHEMA: &str = "sheaves-bench/1";
/// Largest size in the published mean, in bytes.
const PUBLISHED_SIZE_MAX: usize = 8192;

/// Everything that a run found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// [`SCHEMA`].
    pub(crate) schema: String,
    /// The table, or the part of it, that was asked for.
    pub(crate) table: String,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// One for each workload and contender.
    pub(crate) rows: Vec<Row>,
    /// Sheaves to each contender that it is compared with, taken round by round.
    pub(crate) ratios: Vec<Ratio>,
    /// Sheaves against the best of its field, as ratio of medians, and what is asked of it.
    pub(crate) bars: Vec<Judgement>,
    /// Who was left out of which workloads, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<LeftOut>,
}

/// A contender that took no part in some workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    /// Who.
    pub(crate) contender: String,
    /// Why, in a few words.
    pub(crate) reason: String,
    /// The workloads.
    pub(crate) workloads: Vec<String>,
}

/// One contender in one workload. Low and high are the 10th and the 90th percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// `TABLE/VARIANT/SIZE`.
    pub(crate) workload: String,
    /// Who ran.
    pub(crate) contender: String,
    /// Nanoseconds per operation; another one for some rows of `synchronize`, `dispose`
    /// and `bulk`.
    pub(crate) unit: String,
    /// How many samples were taken.
    pub(crate) samples: usize,
    /// 50th percentile.
    pub(crate) median: f64,
    /// 10th percentile.
    pub(crate) low: f64,
    /// 90th percentile.
    pub(crate) high: f64,
    /// What was done for it, where contenders count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<Work>,
}

/// Two contenders in one workload. Low and high are the 10th and the 90th percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    /// `TABLE/VARIANT/SIZE`.
    pub(crate) workload: String,
    /// The one above the line.
    pub(crate) of: String,
    /// The one below the line.
    pub(crate) to: String,
    /// 50th percentile.
    pub(crate) median: f64,
    /// 10th percentile.
    pub(crate) low: f64,
    /// 90th percentile.
    pub(crate) high: f64,
}

impl Report {
    /// An empty report.
    pub(crate) fn new(table: &str) -> Report {
        Report {
            schema: SCHEMA.to_owned(),
            table: table.to_owned(),
            machine: Machine::this(),
            rows: Vec::new(),
            ratios: Vec::new(),
            bars: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Whether a contender takes part in a workload; if not, the report says why.
    pub(crate) fn admit(&mut self, job: &Job, kind: Kind) -> bool {
        let Some(reason) = job.refusal(kind) else { return true };
        let contender = kind.name();
        let same = |left: &&mut LeftOut| left.contender == contender && left.reason == reason;
        match self.left_out.iter_mut().find(same) {
            Some(left_out) => left_out.workloads.push(job.name()),
            None => self.left_out.push(LeftOut {
                contender: contender.to_owned(),
                reason,
                workloads: vec![job.name()],
            }),
        }
        false
    }

    /// Adds what one workload brought: `series` has one entry for each of `kinds`, and in it one
    /// for each of `rows`.
    pub(crate) fn add(&mut self, rows: &[String], kinds: &[Kind], series: &Series) {
        for (index, workload) in rows.iter().enumerate() {
            // Who does not measure what the row is about has no figure.
            let is_measured = |(_, series): &(Kind, &[f64])| series.iter().all(|v| v.is_finite());
            let lanes = kinds.iter().zip(series).map(|(kind, rows)| (*kind, &rows[index][..]));
            let lanes: Vec<(Kind, &[f64])> = lanes.filter(is_measured).collect();
            self.add_row(workload, &lanes);
        }
    }

    fn add_row(&mut self, workload: &str, lanes: &[(Kind, &[f64])]) {
        let mut field: Vec<Entrant<'_>> = Vec::new();
        for (kind, series) in lanes {
            self.rows.push(row(workload, kind.name(), summarize(series)));
            // Of two modes of one contender the better one counts, under the common name.
            let better = lanes
                .iter()
                .filter(|(other, _)| other.family() == kind.family())
                .all(|(_, other)| summarize(series).median <= summarize(other).median);
            if better && !field.iter().any(|(name, ..)| name == kind.family()) {
                field.push((kind.family().to_owned(), kind.role(), series));
                if kind.mode().is_some() {
                    self.rows.push(row(workload, kind.family(), summarize(series)));
                }
            }
        }
        for (of, role, series) in field.iter().filter(|(_, role, _)| role.is_ours()) {
            for (to, other, reference) in &field {
                let baseline = *other == Role::Baseline && *role == Role::OursCache;
                if role.meets(*other) || baseline {
                    self.add_ratio(workload, (of, series), (to, reference));
                }
            }
            self.judge(workload, of, *role, &field);
        }
        self.add_duels(workload, &field);
    }

    fn add_ratio(&mut self, workload: &str, of: (&str, &[f64]), to: (&str, &[f64])) {
        let ratio = paired_ratio(of.1, to.1);
        self.ratios.push(Ratio {
            workload: workload.to_owned(),
            of: of.0.to_owned(),
            to: to.0.to_owned(),
            median: ratio.median,
            low: ratio.low,
            high: ratio.high,
        });
    }

    /// Compares one face of Sheaves with the best of its field.
    fn judge(&mut self, workload: &str, of: &str, role: Role, field: &[Entrant<'_>]) {
        let bar = bars::bar_for(workload, of);
        let versus = bar.map_or(Versus::BestPeer, |bar| bar.versus);
        let median = |series: &[f64]| summarize(series).median;
        let best = field
            .iter()
            .filter(|(name, other, _)| match versus {
                Versus::BestPeer => role.meets(*other),
                Versus::Locked => name == "locked",
                Versus::Named => false,
            })
            .min_by(|a, b| median(a.2).total_cmp(&median(b.2)));
        let own = field.iter().find(|(name, ..)| name == of);
        let (Some(best), Some(own)) = (best, own) else { return };
        // Against a part of its field a bar would say little: the ratio is shown, but not judged.
        let bar = bar.filter(|bar| bar.versus == Versus::Locked || is_complete(role, field));
        self.bars.push(Judgement::new(workload, of, &best.0, median(own.2) / median(best.2), bar));
    }

    /// Adds the judgements over a whole group of rows, once all rows are there: the result of 2011
    /// is a geometric mean over the sizes.
    pub(crate) fn finish(&mut self) {
        for part in ["slabtest/2", "slabtest/1-free"] {
            let ratios: Vec<f64> = self
                .bars
                .iter()
                .filter(|bar| bar.versus == "locked" && bars::group_of(&bar.workload) == part)
                .filter(|bar| Name::parse(&bar.workload).size <= Some(PUBLISHED_SIZE_MAX))
                .map(|bar| bar.ratio)
                .collect();
            let Some(mean) = geometric_mean(&ratios) else { continue };
            let bar = bars::bar_for(&format!("{part}/8"), "cache");
            let workload = format!("{part}/mean");
            self.bars.push(Judgement::new(&workload, "cache", "locked", mean, bar));
        }
    }

    /// The row of a contender in a workload.
    pub(crate) fn row(&self, workload: &str, contender: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.workload == workload && row.contender == contender)
    }

    /// The names of all workloads, in the order in which they were measured.
    pub(crate) fn workloads(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.rows.iter().map(|row| row.workload.as_str()).collect();
        names.dedup();
        names
    }

    /// As the text of a JSON file.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Failure::run(format!("no JSON: {error}")))
    }
}

/// A contender's common name, its role, and its series in one workload.
type Entrant<'a> = (String, Role, &'a [f64]);

/// Whether every peer that a face is judged against took part, and not only glibc.
fn is_complete(role: Role, field: &[Entrant<'_>]) -> bool {
    let mut all = Kind::ALL.iter().filter(|kind| role.meets(kind.role()));
    let present = |kind: &Kind| field.iter().any(|(name, ..)| name == kind.family());
    cfg!(feature = "peers") && all.all(present)
}

fn row(workload: &str, contender: &str, summary: Summary) -> Row {
    Row {
        workload: workload.to_owned(),
        contender: contender.to_owned(),
        unit: workload::unit_of(workload).to_owned(),
        samples: summary.samples,
        median: summary.median,
        low: summary.low,
        high: summary.high,
        work: None,
    }
}

/// Whether a row is one mode of a contender that also has a row under its common name.
pub(crate) fn is_mode(contender: &str) -> bool {
    family(contender) != contender
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("slabtest");
        let kinds = [Kind::Cache, Kind::Malloc, Kind::Locked, Kind::Glibc];
        let lane = |value: f64| vec![vec![value, value, value]];
        let series = vec![lane(2.0), lane(3.0), lane(4.0), lane(6.0)];
        report.add(&["slabtest/2/64".to_owned()], &kinds, &series);
        report.finish();
        report
    }

    #[test]
    fn the_json_has_exactly_the_documented_fields() {
        let report = report();
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys(&json), ["bars", "machine", "ratios", "rows", "schema", "table"]);
        assert_eq!(
            keys(&json["rows"][0]),
            ["contender", "high", "low", "median", "samples", "unit", "workload"]
        );
        assert_eq!(keys(&json["ratios"][0]), ["high", "low", "median", "of", "to", "workload"]);
        assert_eq!(json["rows"][0]["unit"], "ns/op");
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
    }

    #[test]
    fn ratios_pair_each_face_with_its_field() {
        let report = report();
        let pairs: Vec<_> = report.ratios.iter().map(|r| (r.of.as_str(), r.to.as_str())).collect();
        assert_eq!(pairs, [("cache", "locked"), ("cache", "glibc"), ("malloc", "glibc")]);
        assert!((report.ratios[0].median - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_mean_over_the_sizes_is_judged_too() {
        let report = report();
        let mean = report.bars.iter().find(|bar| bar.workload == "slabtest/2/mean").unwrap();
        assert_eq!(mean.verdict.as_deref(), Some("PASS"));
        assert!((mean.ratio - 0.5).abs() < 1e-9);
    }

    #[cfg(feature = "peers")]
    #[test]
    fn of_two_modes_the_better_one_counts() {
        let mut report = Report::new("pair");
        let kinds = [Kind::Malloc, Kind::TcmallocPerCpu, Kind::TcmallocPerThread];
        let series = vec![vec![vec![2.0]], vec![vec![8.0]], vec![vec![4.0]]];
        report.add(&["pair/64".to_owned()], &kinds, &series);
        assert!((report.row("pair/64", "tcmalloc").unwrap().median - 4.0).abs() < 1e-9);
        assert_eq!(report.bars[0].versus, "tcmalloc");
        assert!((report.bars[0].ratio - 0.5).abs() < 1e-9);
    }
}
