//! What is asked of readers and of those who wait for them, and the tables of the latter.

use super::duels::Duel;
use super::{Report, measured};
use crate::workload::name::Name;
use crate::workload::synchronize::{self, MEASURES};

/// A section of the default domain to one of liburcu's usual flavour, and to a pin of crossbeam.
const SECTION_TO_LIBURCU: f64 = 0.7;
const SECTION_TO_CROSSBEAM: f64 = 0.35;
/// What a section of a domain of its own may cost, in nanoseconds; if it costs more, then to the
/// two transactions that it consists of.
const SRCU_NS_MAX: f64 = 1.6;
const SRCU_TO_INCREMENTS: f64 = 1.3;
/// How much faster than a wait by callback a direct one has to be while callbacks are queued: the
/// mean of all calls, and the slowest worker to the slowest. The figures published for Linux.
const DIRECT_SPEEDUP_MEAN: f64 = 2.24;
const DIRECT_SPEEDUP_WORST: f64 = 2.65;
/// The total of ten workers to that of the flavours of liburcu which ask neither a fence nor
/// announcements of readers.
const TOTAL_TO_LIBURCU: f64 = 0.3;
/// A wait of a thread that is alone, to liburcu's usual flavour.
const ALONE_TO_LIBURCU: f64 = 0.35;
/// The longest wait among a million of ten threads, in milliseconds.
const LONGEST_MS_MAX: f64 = 100.0;
/// A wait while 10,000 threads are registered, in microseconds.
const REGISTERED_US_MAX: f64 = 50.0;
/// The total of 500 threads that wait, to the same flavours of liburcu.
const CROWD_TO_LIBURCU: f64 = 0.6;

/// Places in [`MEASURES`].
const MEAN: usize = 0;
const MAX: usize = 3;
const TOTAL: usize = 4;
const WORST: usize = 5;

/// The duels of a row of these tables.
pub(super) fn duels(row: &str) -> Vec<Duel> {
    if let Some(measured) = synchronize::measured(row) {
        return duels_of_waiters(&measured.workload, measured.index);
    }
    let Name { part, .. } = Name::parse(row);
    let is_section = part == "enter-leave";
    if !is_section && (!part.starts_with("load-") || part.ends_with("-replace")) {
        return Vec::new();
    }
    let asked = |limit| is_section.then_some(limit);
    vec![
        ("rcu", "liburcu-memb", asked(SECTION_TO_LIBURCU)),
        ("rcu", "crossbeam-epoch", asked(SECTION_TO_CROSSBEAM)),
        ("rcu", "liburcu-bp", None),
        ("rcu", "liburcu-qsbr", None),
        ("rcu", "seize", None),
        ("rcu", "haphazard", None),
        ("rcu", "arc-swap", None),
        ("rcu", "rwlock", None),
        ("rcu", "parking_lot", None),
    ]
}

fn duels_of_waiters(workload: &str, measure: usize) -> Vec<Duel> {
    let is_alone = workload == "alone";
    let is_flood = workload == "10x1000+flood";
    let flooded = |times: f64| is_flood.then_some(1.0 / times);
    let liburcu = |at_most: Option<f64>| {
        vec![
            ("direct", "liburcu-memb", at_most),
            ("direct", "liburcu-bp", at_most.filter(|_| !is_alone)),
            ("direct", "liburcu-mb", None),
            ("direct", "liburcu-qsbr", None),
        ]
    };
    match measure {
        MEAN if is_alone => liburcu(Some(ALONE_TO_LIBURCU)),
        MEAN => vec![("direct", "callback", flooded(DIRECT_SPEEDUP_MEAN))],
        WORST => vec![("direct", "callback", flooded(DIRECT_SPEEDUP_WORST))],
        TOTAL if workload == "10x1000" => liburcu(Some(TOTAL_TO_LIBURCU)),
        TOTAL if workload == "waiters/500" => liburcu(Some(CROWD_TO_LIBURCU)),
        TOTAL if !is_alone => liburcu(None),
        _ => Vec::new(),
    }
}

impl Report {
    /// Holds a row of these tables against numbers.
    pub(super) fn judge_rcu(&mut self, workload: &str) {
        let median = |of: &str| self.row(workload, of).map(|row| row.median);
        let enters = workload.starts_with("enter-leave/");
        if let (true, Some(srcu)) = (enters, median("srcu")) {
            if srcu <= SRCU_NS_MAX {
                self.judge_limit(workload, "srcu", "1 ns", srcu, SRCU_NS_MAX);
            } else if let Some(floor) = median("increments") {
                self.judge_limit(workload, "srcu", "increments", srcu / floor, SRCU_TO_INCREMENTS);
            }
            return;
        }
        let (Some(of), Some(own)) = (synchronize::measured(workload), median("direct")) else {
            return;
        };
        match (of.workload.as_str(), of.index) {
            ("registered/10000", MEAN) => {
                self.judge_limit(workload, "direct", "1 us", own / 1e3, REGISTERED_US_MAX);
            }
            ("10x100000", MAX) => {
                self.judge_limit(workload, "direct", "1 ms", own / 1e6, LONGEST_MS_MAX);
            }
            _ => {}
        }
    }
}

/// The tables of those who wait: one for each workload, a column for each measure.
pub(super) fn tables_of_waiters(report: &Report) -> String {
    let columns = MEASURES.map(|(suffix, unit)| {
        let head = if suffix.is_empty() { "mean" } else { suffix.trim_start_matches('-') };
        (head, if unit.starts_with("ns") { 1000.0 } else { 1.0 })
    });
    let find = |row: &str| Some((synchronize::measured(row)?, columns.to_vec()));
    let mut text = measured::tables(report, find, |_| String::new());
    if !text.is_empty() {
        text.push_str(
            "\nMicroseconds for each call: mean, percentiles, longest; for all: total, slowest\n\
             thread, and that less the fastest. Standard deviation of the threads' times in\n\
             percent. Grace periods and membarriers, where they are counted. All are medians.\n",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::example::{add, verdicts};
    use super::*;
    use crate::contender::Kind;

    #[test]
    fn sections_are_held_against_others_and_the_clock() {
        let mut report = Report::new("readers");
        let figures = [
            (Kind::Rcu, 0.5),
            (Kind::Srcu, 1.7),
            (Kind::Increments, 1.2),
            (Kind::CrossbeamEpoch, 1.0),
        ];
        add(&mut report, "enter-leave/1t", &figures);
        let expected = [("rcu", "crossbeam-epoch", "MISS"), ("srcu", "increments", "MISS")];
        assert_eq!(verdicts(&report), expected);
        report.bars.clear();
        add(&mut report, "enter-leave/2t", &[(Kind::Srcu, 1.5), (Kind::Increments, 1.0)]);
        assert_eq!(verdicts(&report), [("srcu", "1 ns", "PASS")]);
        report.bars.clear();
        add(&mut report, "load-1/1t", &[(Kind::Rcu, 1.0), (Kind::CrossbeamEpoch, 1.0)]);
        assert!(report.bars.len() == 1 && verdicts(&report).is_empty());
    }

    #[test]
    fn direct_waits_are_held_against_callbacks_in_the_flood() {
        let mut report = Report::new("synchronize");
        let pair = |ratio: f64| [(Kind::Direct, 1000.0), (Kind::Callback, 1000.0 * ratio)];
        add(&mut report, "10x1000+flood", &pair(2.3));
        add(&mut report, "10x1000+flood-worst", &pair(2.3));
        add(&mut report, "10x1000", &pair(0.5));
        add(&mut report, "registered/10000", &[(Kind::Direct, 51_000.0)]);
        add(&mut report, "10x100000-max", &[(Kind::Direct, 99e6)]);
        let expected = [
            ("direct", "callback", "PASS"),
            ("direct", "callback", "MISS"),
            ("direct", "1 us", "MISS"),
            ("direct", "1 ms", "PASS"),
        ];
        assert_eq!(verdicts(&report), expected);
    }

    #[test]
    fn many_waiters_are_held_against_liburcu() {
        let asked = |row| duels(row)[1];
        assert_eq!(asked("waiters-total/500"), ("direct", "liburcu-bp", Some(CROWD_TO_LIBURCU)));
        assert_eq!(asked("waiters-total/64"), ("direct", "liburcu-bp", None));
        assert_eq!(asked("10x1000-total"), ("direct", "liburcu-bp", Some(TOTAL_TO_LIBURCU)));
    }

    #[test]
    fn a_workload_of_waiters_is_one_table() {
        let mut report = Report::new("synchronize");
        add(&mut report, "waiters/64", &[(Kind::Direct, 2500.0)]);
        add(&mut report, "waiters-periods/64", &[(Kind::Direct, 12.0)]);
        let text = tables_of_waiters(&report);
        for part in ["waiters/64\n", "periods", "2.50", "12.0"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert_eq!(tables_of_waiters(&Report::new("pair")), "");
    }
}
