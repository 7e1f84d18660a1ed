//! The report of a run, as text and as JSON.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;

use serde::Serialize;
use sheaves_rcu::{Statistics, statistics};

use super::world::{PIPELINES, SECTIONS, UPDATES, WORLD};
use crate::engine;
use crate::pipeline::AGE_ALLOWED;

/// From this duration on a run has time for everything.
const SECONDS_MIN: f64 = 1.0;

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The schema of this report.
    pub schema: &'static str,
    /// The subject of the run.
    pub subject: &'static str,
    /// Duration of the run.
    pub seconds: f64,
    /// The engine of the domains' transactions.
    pub engine: String,
    /// What orders readers: membarriers, or fences of their own.
    pub order: &'static str,
    /// Completed sections, by kind.
    pub sections: BTreeMap<&'static str, u64>,
    /// Completed updates, by kind: one for each generation of an item.
    pub updates: BTreeMap<&'static str, u64>,
    /// Number of short threads.
    pub threads: u64,
    /// Number of domains that were created and dropped.
    pub domains: u64,
    /// Grace periods of the default domain.
    pub grace_periods: u64,
    /// Membarriers for these grace periods, or fences instead.
    pub membarriers: u64,
    /// Number of sections that have seen a structure of each age, from 0 on.
    pub ages: Vec<u64>,
    /// The oldest structure that a reader has seen.
    pub oldest: u64,
    /// The oldest that readers may see.
    pub oldest_allowed: u64,
    /// The reader that had to be reported.
    pub leak: Option<Leak>,
    /// Each violation in one line.
    pub failures: Vec<String>,
    /// Each event that a run is for and that this one did not reach, in one line.
    pub missed: Vec<String>,
}

/// A reader that stayed until it was reported.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Leak {
    /// The kernel's number of the thread.
    pub thread: i32,
    /// Milliseconds until it was reported; none if never.
    pub reported_ms: Option<u64>,
    /// The time limit for that, in milliseconds.
    pub allowed_ms: u64,
}

impl Leak {
    pub(super) fn new(thread: i32, reported_ms: Option<u64>, allowed_ms: u64) -> Leak {
        Leak { thread, reported_ms, allowed_ms }
    }

    fn is_late(&self) -> bool {
        self.reported_ms.is_none_or(|reported| reported > self.allowed_ms)
    }
}

impl Report {
    pub(super) fn new(
        seconds: f64,
        before: Statistics,
        leak: Option<Leak>,
        stuck: &[String],
    ) -> Report {
        let after = statistics();
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let ages = WORLD.ages();
        let oldest = ages.iter().rposition(|count| *count != 0).unwrap_or(0) as u64;
        let mut report = Report {
            schema: "sheaves-torture/1",
            subject: "rcu",
            seconds,
            engine: engine::describe(),
            order: if after.readers_fence { "fences" } else { "membarrier" },
            sections: SECTIONS.into_iter().zip(WORLD.sections.iter().map(load)).collect(),
            updates: UPDATES.into_iter().zip(WORLD.updates.iter().map(load)).collect(),
            threads: load(&WORLD.threads),
            domains: load(&WORLD.domains),
            grace_periods: after.grace_periods - before.grace_periods,
            membarriers: after.membarriers - before.membarriers,
            ages,
            oldest,
            oldest_allowed: AGE_ALLOWED,
            leak,
            failures: Vec::new(),
            missed: Vec::new(),
        };
        report.failures = report.judge(stuck);
        report.missed = report.look_for_missed();
        report
    }

    fn judge(&self, stuck: &[String]) -> Vec<String> {
        let mut failures = Vec::new();
        let errors: u64 = self.ages.iter().skip(AGE_ALLOWED as usize + 1).sum();
        if errors != 0 {
            let kinds = those(SECTIONS.iter().zip(&WORLD.late));
            let pipelines = those(PIPELINES.iter().zip(&WORLD.late_of));
            failures.push(format!(
                "{errors} readers saw a structure of up to {} generations, and {AGE_ALLOWED} is \
                 allowed: a grace period was none (sections: {kinds}; updaters: {pipelines})",
                self.oldest
            ));
        }
        if !stuck.is_empty() {
            failures.push(format!("threads that wait for ever: {}", stuck.join(", ")));
        }
        if let Some(leak) = self.leak.as_ref().filter(|leak| leak.is_late()) {
            let reported = leak.reported_ms.map_or("not".into(), |ms| format!("after {ms} ms"));
            failures.push(format!("a reader that stayed was reported {reported}"));
        }
        failures
    }

    /// A run that an error has ended, or a very short one, had no time for everything.
    fn look_for_missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        if !self.failures.is_empty() || self.seconds < SECONDS_MIN {
            return missed;
        }
        if self.order == "membarrier" && self.membarriers == self.grace_periods {
            missed.push("no grace period went without a membarrier".into());
        }
        for (kind, _) in self.updates.iter().chain(&self.sections).filter(|kind| *kind.1 == 0) {
            missed.push(format!("nothing of the kind {kind} came to its end"));
        }
        missed
    }

    /// True when there is no failure and nothing was missed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty() && self.missed.is_empty()
    }
}

/// The names of the counts that are not 0.
fn those<'a>(counts: impl Iterator<Item = (&'a &'a str, &'a AtomicU64)>) -> String {
    let counted = counts.filter(|(_, count)| count.load(Ordering::Relaxed) != 0);
    counted.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, engine, order) = (self.seconds, &self.engine, self.order);
        writeln!(f, "rcu: {seconds:.1} s; {engine}; readers ordered by {order}")?;
        for (title, counts) in [("sections", &self.sections), ("updates", &self.updates)] {
            writeln!(f, "{title}: {}", counts.values().sum::<u64>())?;
            for (kind, count) in counts {
                writeln!(f, "  {kind:<22}{count:>12}")?;
            }
        }
        let each_second = self.threads as f64 / seconds;
        writeln!(f, "threads that came and went: {} ({each_second:.0} a second)", self.threads)?;
        writeln!(f, "domains that came and went: {}", self.domains)?;
        let (periods, membarriers) = (self.grace_periods, self.membarriers);
        writeln!(f, "grace periods: {periods}, with {membarriers} membarriers or fences")?;
        if let Some((thread, Some(reported))) =
            self.leak.as_ref().map(|l| (l.thread, l.reported_ms))
        {
            writeln!(f, "reader that stayed: thread {thread}, reported after {reported} ms")?;
        }
        let (oldest, allowed) = (self.oldest, self.oldest_allowed);
        writeln!(f, "oldest generation that a reader saw: {oldest} ({allowed} is allowed)")
    }
}

#[cfg(test)]
#[path = "../../tests/unit/rcu_report.rs"]
mod tests;
