//! The figures of docs/references.md: published results, each measured again before and after.

use std::path::Path;

use anyhow::Context as _;

use super::lines::{Report, about, name_of, report_in};
use super::number::number;

/// A published result and where it is measured.
struct Reference {
    words: &'static str,
    published: &'static str,
    table: &'static str,
    workload: &'static str,
    before: &'static str,
    after: &'static str,
    ours: &'static str,
}

const REFERENCES: [Reference; 9] = [
    Reference {
        words: "000: `kfree_rcu` in bulk, time of a loop",
        published: "2.23 (SLAB), 1.01 (SLUB)",
        table: "bulk",
        workload: "bulk/1t",
        before: "per-object",
        after: "bulk",
        ours: "sheaves",
    },
    Reference {
        words: "000: bytes that wait to be freed",
        published: "0.97 (SLAB), 1.51 (SLUB)",
        table: "bulk",
        workload: "bulk-footprint/1t",
        before: "per-object",
        after: "bulk",
        ours: "sheaves",
    },
    Reference {
        words: "001: lock-less fast path, a pair of 64 B",
        published: "1.70 (mean over sizes)",
        table: "slabtest",
        workload: "slabtest/2/64",
        before: "locked",
        after: "cache",
        ours: "cache",
    },
    Reference {
        words: "002: per-CPU memory with scan hints, 100,000 filters",
        published: "1.77 (1,000,000, with all of `tc`)",
        table: "percpu",
        workload: "tc/64k-zeroed-8/100000",
        before: "V50",
        after: "V52",
        ours: "FIXED",
    },
    Reference {
        words: "002: its control, objects without holes",
        published: "1.00",
        table: "percpu",
        workload: "control/64k-zeroed-8/100000",
        before: "V50",
        after: "V52",
        ours: "FIXED",
    },
    Reference {
        words: "003: ten waiters woken directly beside 10,000 callbacks, mean of a call",
        published: "2.24",
        table: "synchronize",
        workload: "10x1000+flood",
        before: "callback",
        after: "direct",
        ours: "direct",
    },
    Reference {
        words: "003: the slowest of the ten",
        published: "2.65",
        table: "synchronize",
        workload: "10x1000+flood-worst",
        before: "callback",
        after: "direct",
        ours: "direct",
    },
    Reference {
        words: "004: deferred calls by CPU, one thread",
        published: "5.5",
        table: "dispose",
        workload: "dispose/1t",
        before: "before",
        after: "after",
        ours: "sheaves",
    },
    Reference {
        words: "004: four threads",
        published: "108 (four CPUs)",
        table: "dispose",
        workload: "dispose/4t",
        before: "before",
        after: "after",
        ours: "sheaves",
    },
];

/// A machine's table.
pub(super) fn section(folder: &Path) -> anyhow::Result<String> {
    let name = name_of(folder);
    let mut text = String::new();
    let mut measured = Vec::new();
    for reference in &REFERENCES {
        let Some(report) = report_in::<Report>(folder, reference.table)? else { continue };
        let row = reference.row(&report).with_context(|| name.clone().into_owned())?;
        text.push_str(&row);
        measured.push((reference.table, report.machine));
    }
    let about = about(&name, &measured);
    Ok(format!(
        "### {name}\n\n{about}\n\n\
         | result | published | before to after | before to Sheaves | table |\n\
         |---|--:|--:|--:|---|\n{text}\n"
    ))
}

impl Reference {
    fn row(&self, report: &Report) -> anyhow::Result<String> {
        let of = |contender: &str| {
            let figure = report.median(self.workload, contender);
            figure.with_context(|| format!("no row {} of {contender}", self.workload))
        };
        let (before, after, ours) = (of(self.before)?, of(self.after)?, of(self.ours)?);
        let [reproduced, beaten] = [before / after, before / ours].map(number);
        let Reference { words, published, table, .. } = self;
        Ok(format!("| {words} | {published} | {reproduced} | {beaten} | `{table}` |\n"))
    }
}
