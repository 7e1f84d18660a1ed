//! What is asked of those who free objects once readers are gone, and their tables.

use super::Report;
use super::duels::Duel;
use super::measured::{self, Column};
use crate::workload::measures;
use crate::workload::name::Name;
use crate::workload::{bulk, dispose};

/// A deferred free to one at once, with the allocation and the write that both have.
const DISPOSE_TO_FLOOR: f64 = 2.0;
/// To crossbeam on a fast allocator, with one thread and with two.
const DISPOSE_TO_CROSSBEAM: f64 = 0.30;
const DISPOSE_TO_CROSSBEAM_2T: f64 = 0.20;
/// How much faster than the better of liburcu's two ways.
const DISPOSE_SPEEDUP_LIBURCU: f64 = 8.0;
/// How much faster than a list behind a mutex, with one thread and with four: the figures published
/// for OSv, rounded.
const DISPOSE_SPEEDUP_BEFORE: f64 = 5.5;
const DISPOSE_SPEEDUP_BEFORE_4T: f64 = 100.0;
/// What a request that disposes of an object may take, to one that does not.
const REQUEST_TO_WITHOUT: f64 = 1.02;
/// How much faster than frees one by one: the figure published for Linux.
const BULK_SPEEDUP: f64 = 2.23;
/// Footprint, to that of frees one by one.
const BULK_FOOTPRINT: f64 = 0.66;

/// Ways of liburcu, with both allocators.
const LIBURCU: [&str; 4] = [
    "liburcu-call_rcu",
    "liburcu-call_rcu+mimalloc",
    "liburcu-defer_rcu",
    "liburcu-defer_rcu+mimalloc",
];

/// The duels of a row of these tables.
pub(super) fn duels(row: &str) -> Vec<Duel> {
    let Name { part, variant, .. } = Name::parse(row);
    let ours = |to, at_most| ("sheaves", to, at_most);
    match (part.as_str(), variant.as_str()) {
        ("dispose", "request") => vec![
            ours("without", Some(REQUEST_TO_WITHOUT)),
            ("floor", "without", None),
            ("after", "without", None),
            ("before", "without", None),
        ],
        ("dispose", threads) => {
            let asked = |of: &str, limit: f64| (threads == of).then_some(limit);
            let crossbeam = asked("1t", DISPOSE_TO_CROSSBEAM);
            let before = asked("1t", 1.0 / DISPOSE_SPEEDUP_BEFORE);
            vec![
                ours("floor", asked("1t", DISPOSE_TO_FLOOR)),
                ours(
                    "crossbeam-epoch+mimalloc",
                    crossbeam.or(asked("2t", DISPOSE_TO_CROSSBEAM_2T)),
                ),
                ours("crossbeam-epoch", None),
                ours("before", before.or(asked("4t", 1.0 / DISPOSE_SPEEDUP_BEFORE_4T))),
                ours("after", None),
                ours("seize", None),
                ours("seize+mimalloc", None),
                ours("haphazard", None),
                ours("haphazard+mimalloc", None),
                ("after", "before", None),
            ]
        }
        ("bulk", _) => vec![("bulk", "per-object", None)],
        // Footprints.
        _ => vec![
            ours("per-object", Some(BULK_FOOTPRINT)),
            ("bulk", "per-object", None),
            ours("per-object+glibc", None),
        ],
    }
}

impl Report {
    /// Holds a row against the best of several, or against the one that is left.
    pub(super) fn judge_reclaim(&mut self, workload: &str) {
        let median = |of: &str| self.row(workload, of).map(|row| row.median);
        let Some(own) = median("sheaves") else { return };
        match Name::parse(workload).part.as_str() {
            "dispose" if !workload.ends_with("/request") => {
                let figures = LIBURCU.iter().filter_map(|name| Some((*name, median(name)?)));
                let figures: Vec<(&str, f64)> = figures.collect();
                let best = figures.iter().min_by(|a, b| a.1.total_cmp(&b.1)).copied();
                let is_complete = figures.len() == LIBURCU.len();
                if let Some((name, best)) = best.filter(|_| is_complete) {
                    let at_most = 1.0 / DISPOSE_SPEEDUP_LIBURCU;
                    self.judge_limit(workload, "sheaves", name, own / best, at_most);
                }
            }
            "bulk" => {
                // Where our own free is so cheap that the first cannot be, the second is asked for.
                for to in ["per-object", "per-object+glibc"] {
                    let Some(other) = self.row(workload, to).map(|row| row.median) else {
                        continue;
                    };
                    self.judge_limit(workload, "sheaves", to, own / other, 1.0 / BULK_SPEEDUP);
                    if own / other <= 1.0 / BULK_SPEEDUP {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
}

const KIB: f64 = 1024.0;
const DISPOSE_COLUMNS: [Column; dispose::MEASURES.len()] =
    [("ns", 1.0), ("all free, us", 1000.0), ("deferred, KiB", KIB), ("periods", 1.0)];
const BULK_COLUMNS: [Column; bulk::MEASURES.len()] = [
    ("ns", 1.0),
    ("all free, us", 1000.0),
    ("footprint, KiB", KIB),
    ("resident, KiB", KIB),
    ("at the end, KiB", KIB),
    ("periods", 1.0),
];

/// The columns of a workload of these tables.
fn columns_of(workload: &str) -> Option<&'static [Column]> {
    match Name::parse(workload).part.as_str() {
        dispose::PART => Some(&DISPOSE_COLUMNS),
        bulk::PART => Some(&BULK_COLUMNS),
        _ => None,
    }
}

/// One table for each workload, a column for each measure.
pub(super) fn tables(report: &Report) -> String {
    let find = |row: &str| {
        let of = measures::of_row(row)?;
        let columns = columns_of(&of.workload)?;
        Some((of, columns.to_vec()))
    };
    let label = |workload: &str| oversubscribed(workload, report.machine.cpus);
    let mut text = measured::tables(report, find, label);
    if !text.is_empty() {
        text.push_str(
            "\nNanoseconds for each object (`request`: for each round of the loop); microseconds\n\
             from the end of that until all is free; what is deferred at that end; grace periods\n\
             meanwhile, where they are counted. All are medians.\n",
        );
    }
    text
}

/// Says so where there are more threads than processors.
fn oversubscribed(workload: &str, cpus: usize) -> String {
    let Name { variant, .. } = Name::parse(workload);
    let threads = variant.strip_suffix('t').and_then(|number| number.parse::<usize>().ok());
    match threads {
        Some(threads) if threads > cpus => format!(" (oversubscribed: {cpus} processors)"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::add;
    use super::*;
    use crate::contender::Kind;

    fn verdicts(report: &Report) -> Vec<(&str, &str)> {
        let judged = super::super::example::verdicts(report);
        judged.into_iter().map(|(_, versus, verdict)| (versus, verdict)).collect()
    }

    fn judge(row: &str, figures: &[(Kind, f64)]) -> Report {
        let mut report = Report::new("dispose");
        add(&mut report, row, figures);
        report
    }

    #[test]
    fn one_thread_is_held_against_the_floor_and_four_against_the_list() {
        let figures = [(Kind::Sheaves, 3.0), (Kind::Floor, 1.6), (Kind::Before, 200.0)];
        let report = judge("dispose/1t", &figures);
        assert_eq!(verdicts(&report), [("floor", "PASS"), ("before", "PASS")]);
        assert_eq!(verdicts(&judge("dispose/2t", &figures)), []);
        assert_eq!(verdicts(&judge("dispose/4t", &figures)), [("before", "MISS")]);
        let request = [(Kind::Sheaves, 1025.0), (Kind::Without, 1000.0)];
        assert_eq!(verdicts(&judge("dispose/request", &request)), [("without", "MISS")]);
    }

    #[cfg(feature = "peers")]
    #[test]
    fn the_better_way_of_liburcu_counts() {
        let figures = [
            (Kind::Sheaves, 4.0),
            (Kind::UrcuCall, 100.0),
            (Kind::UrcuCallMimalloc, 90.0),
            (Kind::UrcuDefer, 40.0),
            (Kind::UrcuDeferMimalloc, 30.0),
        ];
        let report = judge("dispose/2t", &figures);
        assert_eq!(verdicts(&report), [("liburcu-defer_rcu+mimalloc", "MISS")]);
        // Against some of them a bar would say little.
        assert_eq!(verdicts(&judge("dispose/2t", &figures[..3])), []);
    }

    #[test]
    fn bulk_is_held_against_glibc_where_our_free_is_too_cheap() {
        let figures =
            |one: f64| [(Kind::Sheaves, 3.0), (Kind::PerObject, one), (Kind::PerObjectGlibc, 9.0)];
        assert_eq!(verdicts(&judge("bulk/1t", &figures(7.0))), [("per-object", "PASS")]);
        let expected = [("per-object", "MISS"), ("per-object+glibc", "PASS")];
        assert_eq!(verdicts(&judge("bulk/1t", &figures(5.0))), expected);
        let footprint = [(Kind::Sheaves, 60.0), (Kind::PerObject, 100.0)];
        assert_eq!(verdicts(&judge("bulk-resident/2t", &footprint)), [("per-object", "PASS")]);
    }

    #[test]
    fn a_workload_is_one_table() {
        let mut report = judge("dispose/4t", &[(Kind::Sheaves, 2.5)]);
        add(&mut report, "dispose-outstanding/4t", &[(Kind::Sheaves, 20480.0)]);
        report.machine.cpus = 2;
        let text = tables(&report);
        for part in ["dispose/4t (oversubscribed: 2 processors)", "deferred, KiB", "20.0"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert_eq!(tables(&Report::new("pair")), "");
    }
}
