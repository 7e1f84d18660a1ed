//! Who meets whom in the tables whose contenders hand out no ordinary objects, and what is asked.
//!
//! A duel is a ratio of medians. A limit holds one figure against a number: chunks tested per
//! allocation, memory in use to what the objects need, or nanoseconds.

use super::bars::{Bar, Judgement, Versus};
use super::work::Work;
use super::{Entrant, Report};
use crate::contender::Kind;
use crate::stats::summarize;
use crate::workload::name::Name;
use crate::workload::percpu::variant::ZEROED;

/// Two contenders by name, and the most that the ratio of their medians may be.
pub(super) type Duel = (&'static str, &'static str, Option<f64>);

/// How much faster than `V50` its successors have to be where objects are zeroed.
const TC_SPEEDUP_V52: f64 = 1.77;
const TC_SPEEDUP_FIXED: f64 = 2.5;
/// How much slower than `V50` they may be where no holes are left.
const CONTROL_AT_MOST: f64 = 1.03;
/// How much faster than one mutex for each pool the caches have to be, on several threads.
const CACHES_SPEEDUP: f64 = 5.0;
/// How much faster than one atomic number the counter has to be, on several threads.
const COUNTER_SPEEDUP: f64 = 10.0;
/// What one addition to the counter may cost, in nanoseconds.
const ADDITION_NS_MAX: f64 = 1.5;
/// Chunks that may be tested for an allocation.
const CHUNKS_TESTED_MAX: f64 = 1.01;
/// Memory in use to what the objects need.
const MEMORY_RATIO_MAX: f64 = 1.02;
/// Rows of fewer filters are not judged: memory that is kept at hand counts for much there, and
/// samples are short.
const FILTERS_JUDGED_MIN: usize = 100_000;

/// The duels of a workload.
fn duels(workload: &str) -> Vec<Duel> {
    let Name { part, variant, size } = Name::parse(workload);
    let many = size.is_some_and(|filters| filters >= FILTERS_JUDGED_MIN);
    let zeroed = variant.contains(ZEROED);
    let speedup = |times: f64| Some(1.0 / times);
    match part.as_str() {
        "tc" | "tc-packed" | "churn" => {
            let judged = part == "tc" && zeroed && many;
            let asked = |times| if judged { speedup(times) } else { None };
            vec![
                ("V52", "V50", asked(TC_SPEEDUP_V52)),
                ("FIXED", "V50", asked(TC_SPEEDUP_FIXED)),
                ("FIXED", "mutex-pool", None),
                ("FIXED", "padded-box", None),
                ("FIXED+caches", "mutex-pool", None),
                ("FIXED+handles", "mutex-pool", None),
            ]
        }
        "control" => {
            let asked = many.then_some(CONTROL_AT_MOST);
            vec![
                ("V52", "V50", asked),
                ("FIXED", "V50", asked),
                ("FIXED", "mutex-pool", None),
                ("FIXED", "padded-box", None),
                ("FIXED+caches", "mutex-pool", None),
                ("FIXED+handles", "mutex-pool", None),
            ]
        }
        "concurrent" | "concurrent-pair" => {
            let asked = if variant == "1t" { Some(1.0) } else { speedup(CACHES_SPEEDUP) };
            vec![
                ("FIXED+caches", "mutex-pool", asked),
                ("FIXED+caches", "FIXED", None),
                ("FIXED+caches", "padded-box", None),
                ("FIXED+handles", "mutex-pool", None),
            ]
        }
        "counter" => {
            let asked = if variant == "2t" { speedup(COUNTER_SPEEDUP) } else { None };
            vec![
                ("counter", "atomic", asked),
                ("counter", "sharded", None),
                ("counter", "thread-local", None),
            ]
        }
        "map" => {
            vec![
                ("rcu-map", "papaya", None),
                ("rcu-map", "dashmap", None),
                ("rcu-map-held", "papaya-held", None),
            ]
        }
        "dispose" | "bulk" | "bulk-footprint" | "bulk-resident" => super::reclaim::duels(workload),
        _ => super::rcu::duels(workload),
    }
}

/// What else is asked of a contender in a workload: against what, the figure, and its limit.
fn limits(workload: &str, contender: &str, work: &Work) -> Vec<(&'static str, f64, f64)> {
    let Name { part, size, .. } = Name::parse(workload);
    let mut limits = Vec::new();
    if size.is_none_or(|filters| filters < FILTERS_JUDGED_MIN) {
        return limits;
    }
    let new = ["V52", "FIXED"].contains(&contender);
    if let Some(tested) = work.chunks_tested().filter(|_| new && part == "tc") {
        limits.push(("1 chunk tested", tested, CHUNKS_TESTED_MAX));
    }
    if ["FIXED", "FIXED+caches", "FIXED+handles"].contains(&contender) {
        limits.push(("ideal memory", work.memory_ratio(), MEMORY_RATIO_MAX));
    }
    limits
}

impl Report {
    /// Adds the duels of a workload: ratios and judgements.
    pub(super) fn add_duels(&mut self, workload: &str, field: &[Entrant<'_>]) {
        for (of, to, at_most) in duels(workload) {
            let find = |name: &str| field.iter().find(|(known, ..)| known == name);
            let (Some(own), Some(other)) = (find(of), find(to)) else { continue };
            self.add_ratio(workload, (of, own.2), (to, other.2));
            let median = |series: &[f64]| summarize(series).median;
            let ratio = median(own.2) / median(other.2);
            let bar = at_most.map(|at_most| Bar { versus: Versus::Named, at_most });
            self.bars.push(Judgement::new(workload, of, to, ratio, bar));
        }
        if workload == "counter/1t" && field.iter().any(|(name, ..)| name == "counter") {
            let ns = self.row(workload, "counter").map_or(f64::NAN, |row| row.median);
            self.judge_limit(workload, "counter", "1 ns", ns, ADDITION_NS_MAX);
        }
        self.judge_rcu(workload);
        self.judge_reclaim(workload);
    }

    pub(super) fn judge_limit(
        &mut self,
        workload: &str,
        of: &str,
        what: &str,
        figure: f64,
        at_most: f64,
    ) {
        let bar = Some(Bar { versus: Versus::Named, at_most });
        self.bars.push(Judgement::new(workload, of, what, figure, bar));
    }

    /// Adds what a contender did to its row, and holds it against the limits.
    pub(crate) fn add_work(&mut self, rows: &[String], kind: Kind, work: Option<Work>) {
        let (Some(work), Some(workload)) = (work, rows.first()) else { return };
        let contender = kind.name();
        for (what, figure, at_most) in limits(workload, contender, &work) {
            self.judge_limit(workload, contender, what, figure, at_most);
        }
        let own = |row: &&mut super::Row| row.workload == *workload && row.contender == contender;
        if let Some(row) = self.rows.iter_mut().find(own) {
            row.work = Some(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::verdicts;
    use super::super::work::example;
    use super::*;

    #[test]
    fn generations_are_held_against_the_first() {
        let mut report = Report::new("percpu");
        let kinds = [Kind::V50, Kind::V52, Kind::Fixed];
        let series = vec![vec![vec![100.0; 3]], vec![vec![60.0; 3]], vec![vec![40.0; 3]]];
        let rows = ["tc/64k-zeroed-8/100000".to_owned()];
        report.add(&rows, &kinds, &series);
        assert_eq!(verdicts(&report), [("V52", "V50", "MISS"), ("FIXED", "V50", "PASS")]);
        assert_eq!(report.ratios.len(), 2);

        report.bars.clear();
        report.add(&["tc/64k/100000".to_owned()], &kinds, &series);
        assert!(report.bars.len() == 2 && verdicts(&report).is_empty());
    }

    #[test]
    fn work_is_held_against_its_limits() {
        let mut report = Report::new("percpu");
        let rows = ["tc/64k/100000".to_owned()];
        report.add(&rows, &[Kind::Fixed], &vec![vec![vec![40.0]]]);
        report.add_work(&rows, Kind::Fixed, Some(example(1.005)));
        assert_eq!(limits("tc/64k/100000", "FIXED+handles", &example(1.0)).len(), 1);
        let expected = [("FIXED", "1 chunk tested", "PASS"), ("FIXED", "ideal memory", "MISS")];
        assert_eq!(verdicts(&report), expected);
        let work = report.row(&rows[0], "FIXED").unwrap().work.clone();
        assert_eq!(work, Some(example(1.005)));
        // With few filters the pages that are kept at hand count for much.
        assert!(limits("tc/64k/1000", "FIXED", &example(1.0)).is_empty());
        assert!(limits("tc/64k/100000", "V50", &example(50.0)).is_empty());
    }

    #[test]
    fn counters_are_held_against_the_atomic_and_the_clock() {
        let mut report = Report::new("counter");
        let kinds = [Kind::Counter, Kind::Atomic];
        let series = vec![vec![vec![1.4; 3]], vec![vec![15.0; 3]]];
        report.add(&["counter/1t".to_owned()], &kinds, &series);
        report.add(&["counter/2t".to_owned()], &kinds, &series);
        let expected = [("counter", "1 ns", "PASS"), ("counter", "atomic", "PASS")];
        assert_eq!(verdicts(&report), expected);
    }

    #[test]
    fn caches_are_held_against_a_mutex_for_each_pool() {
        let asked = |workload| duels(workload)[0];
        assert_eq!(asked("concurrent/1t"), ("FIXED+caches", "mutex-pool", Some(1.0)));
        assert_eq!(asked("concurrent/2t"), ("FIXED+caches", "mutex-pool", Some(0.2)));
        assert_eq!(asked("concurrent-pair/2t"), ("FIXED+caches", "mutex-pool", Some(0.2)));
        assert!(duels("pair/64").is_empty());
    }
}
