//! The report of a run, as text and as JSON.

use core::fmt;
use std::collections::BTreeMap;

use serde::Serialize;
use sheaves_rcu::defer;

use super::counts::{COUNTS, FAULTS};
use super::route::ROUTES;
use crate::engine;

/// From this duration on a run has time for everything.
const SECONDS_MIN: f64 = 3.0;

/// The statistics before the run.
pub(super) struct Before {
    calls: defer::Emergencies,
    caches: sheaves_slab::internal::Emergencies,
    grace_periods: u64,
}

impl Before {
    pub(super) fn now() -> Before {
        Before {
            calls: defer::statistics().emergencies,
            caches: sheaves_slab::internal::emergencies(),
            grace_periods: sheaves_rcu::statistics().grace_periods,
        }
    }

    /// Emergencies since then, and the number of objects that readers have leaked in them.
    fn emergencies(&self) -> (BTreeMap<&'static str, u64>, u64) {
        let (calls, caches) =
            (defer::statistics().emergencies, sheaves_slab::internal::emergencies());
        let of_caches = |of: fn(&sheaves_slab::internal::Emergencies) -> u32| {
            u64::from(of(&caches) - of(&self.caches))
        };
        let reached = [
            ("head-linked", calls.linked - self.calls.linked),
            ("caller-waits", calls.waits - self.calls.waits),
            ("sheaf-from-the-cache", of_caches(|of| of.from_the_cache)),
            ("caller-waits-for-cache", of_caches(|of| of.waits)),
        ];
        let leaks = calls.leaks - self.calls.leaks + of_caches(|of| of.leaks);
        (reached.into(), leaks)
    }
}

/// Objects of one path.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Path {
    /// Number of objects that were allocated.
    pub made: u64,
    /// Number of objects that were deferred.
    pub deferred: u64,
    /// Number of objects that a function has freed, where the path has one.
    pub freed: u64,
}

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
    /// The engine of the transactions.
    pub engine: String,
    /// Objects by the path on which they were deferred.
    pub paths: BTreeMap<&'static str, Path>,
    /// Completed sections, barriers, drains, forks, and so on.
    pub deeds: BTreeMap<&'static str, u64>,
    /// How deferring without memory was handled.
    pub emergencies: BTreeMap<&'static str, u64>,
    /// Grace periods.
    pub grace_periods: u64,
    /// Each violation in one line.
    pub failures: Vec<String>,
    /// Each event that a run is for and that this one did not reach, in one line.
    pub missed: Vec<String>,
}

impl Report {
    pub(super) fn new(seconds: f64, before: &Before, stuck: &[String]) -> Report {
        let path = |route| {
            let [made, deferred, freed] = COUNTS.counts(route);
            Path { made, deferred, freed }
        };
        let (emergencies, leaks) = before.emergencies();
        let mut report = Report {
            schema: "sheaves-torture/1",
            subject: "reclaim",
            seconds,
            engine: engine::describe(),
            paths: ROUTES.into_iter().map(|(route, name)| (name, path(route))).collect(),
            deeds: COUNTS.deeds().collect(),
            emergencies,
            grace_periods: sheaves_rcu::statistics().grace_periods - before.grace_periods,
            failures: Vec::new(),
            missed: Vec::new(),
        };
        report.failures = judge(stuck, leaks);
        report.missed = report.look_for_missed();
        report
    }

    /// A run that an error has ended, or a very short one, had no time for everything.
    fn look_for_missed(&self) -> Vec<String> {
        if !self.failures.is_empty() || self.seconds < SECONDS_MIN {
            return Vec::new();
        }
        let deferred = self.paths.iter().map(|(name, path)| (name, path.deferred));
        let deeds = self.deeds.iter().map(|(name, count)| (name, *count));
        let missed = deferred.chain(deeds).filter(|(_, count)| *count == 0);
        missed.map(|(name, _)| format!("nothing of the kind {name} was done")).collect()
    }

    /// True when there is no failure and nothing was missed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty() && self.missed.is_empty()
    }
}

/// Each violation in one line.
fn judge(stuck: &[String], leaks: u64) -> Vec<String> {
    let mut failures = Vec::new();
    for (number, what) in FAULTS.into_iter().enumerate() {
        let those: Vec<_> =
            COUNTS.faults_of(number).map(|(name, count)| format!("{count} of {name}")).collect();
        if !those.is_empty() {
            failures.push(format!("objects {what}: {}", those.join(", ")));
        }
    }
    failures.extend(COUNTS.notes());
    if leaks != 0 {
        failures.push(format!("{leaks} objects were given up"));
    }
    if !stuck.is_empty() {
        failures.push(format!("threads that wait for ever: {}", stuck.join(", ")));
    }
    failures
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "reclaim: {:.1} s; {}", self.seconds, self.engine)?;
        let deferred: u64 = self.paths.values().map(|path| path.deferred).sum();
        writeln!(f, "objects that were deferred: {deferred}")?;
        for (name, path) in &self.paths {
            writeln!(f, "  {name:<22}{:>12}", path.deferred)?;
        }
        for (title, counts) in [("done", &self.deeds), ("without memory", &self.emergencies)] {
            writeln!(f, "{title}:")?;
            for (name, count) in counts {
                writeln!(f, "  {name:<22}{count:>12}")?;
            }
        }
        writeln!(f, "grace periods: {}", self.grace_periods)
    }
}
