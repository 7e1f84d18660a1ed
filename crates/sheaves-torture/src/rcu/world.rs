//! Shared state of the threads and handlers of a run, and their counts.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use sheaves_rcu::Srcu;

use crate::pipeline::{AGE_ALLOWED, GENERATIONS, Item, Pipeline};
use crate::rounds::Rounds;
use crate::signals::Signals;

/// Kinds of sections, as they are named in reports.
pub(super) const SECTIONS: [&str; 8] = [
    "plain",
    "nested",
    "migrating",
    "handler",
    "short-thread",
    "domain",
    "domain-ends-elsewhere",
    "domain-handler",
];
pub(super) const PLAIN: usize = 0;
pub(super) const NESTED: usize = 1;
pub(super) const MIGRATING: usize = 2;
pub(super) const HANDLER: usize = 3;
pub(super) const SHORT_THREAD: usize = 4;
pub(super) const DOMAIN: usize = 5;
pub(super) const DOMAIN_ELSEWHERE: usize = 6;
pub(super) const DOMAIN_HANDLER: usize = 7;

/// Kinds of updates, as they are named in reports.
pub(super) const UPDATES: [&str; 8] = [
    "synchronize",
    "expedited",
    "expedite-guard",
    "cookie-wait",
    "polled",
    "async",
    "domain",
    "domain-call",
];
pub(super) const SYNCHRONIZE: usize = 0;
pub(super) const EXPEDITED: usize = 1;
pub(super) const EXPEDITE_GUARD: usize = 2;
pub(super) const COOKIE_WAIT: usize = 3;
pub(super) const POLLED: usize = 4;
pub(super) const ASYNC: usize = 5;
pub(super) const DOMAIN_UPDATE: usize = 6;
pub(super) const DOMAIN_CALL: usize = 7;

/// The updaters that have pipelines, in their order.
pub(super) const PIPELINES: [&str; 4] = ["blocks", "polls", "awaits", "domain"];

/// The state of a run. One for the process.
pub(super) struct World {
    /// Those of the default domain: of the updaters that block, that poll, and that await.
    pub(super) pipelines: [Pipeline; 3],
    /// The pipeline of the domain of its own.
    pub(super) domain_pipeline: Pipeline,
    pub(super) domain: OnceLock<Srcu>,
    pub(super) rounds: Rounds,
    pub(super) signals: Signals,
    pub(super) sections: [AtomicU64; SECTIONS.len()],
    pub(super) updates: [AtomicU64; UPDATES.len()],
    /// Sections that have seen an item that was too old: by kind, and by the pipeline's updater.
    pub(super) late: [AtomicU64; SECTIONS.len()],
    pub(super) late_of: [AtomicU64; PIPELINES.len()],
    /// Number of readers that have seen each age.
    ages: [AtomicU64; GENERATIONS as usize + 1],
    /// Number of short threads.
    pub(super) threads: AtomicU64,
    pub(super) domains: AtomicU64,
}

pub(super) static WORLD: World = World {
    pipelines: [const { Pipeline::new() }; 3],
    domain_pipeline: Pipeline::new(),
    domain: OnceLock::new(),
    rounds: Rounds::new(),
    signals: Signals::new(),
    sections: [const { AtomicU64::new(0) }; SECTIONS.len()],
    updates: [const { AtomicU64::new(0) }; UPDATES.len()],
    late: [const { AtomicU64::new(0) }; SECTIONS.len()],
    late_of: [const { AtomicU64::new(0) }; PIPELINES.len()],
    ages: [const { AtomicU64::new(0) }; GENERATIONS as usize + 1],
    threads: AtomicU64::new(0),
    domains: AtomicU64::new(0),
};

impl World {
    /// Called before a run, while no thread takes part.
    pub(super) fn reset(&self) {
        self.pipelines.iter().chain([&self.domain_pipeline]).for_each(Pipeline::reset);
        let counts = self.sections.iter().chain(&self.updates).chain(&self.ages);
        let counts = counts.chain(&self.late).chain(&self.late_of);
        for count in counts.chain([&self.threads, &self.domains]) {
            count.store(0, Ordering::Relaxed);
        }
        self.rounds.reset();
    }

    /// The domain of its own, which is created before any thread starts.
    pub(super) fn domain(&self) -> &Srcu {
        self.domain.get().expect("the domain is made before the threads")
    }

    /// Called at the end of a section: counts the item if it was too old. Async-signal-safe.
    pub(super) fn check(&self, pipeline: &Pipeline, item: Item, kind: usize) {
        let age = pipeline.age(item);
        self.ages[age as usize].fetch_add(1, Ordering::Relaxed);
        self.sections[kind].fetch_add(1, Ordering::Relaxed);
        if age > AGE_ALLOWED {
            self.late[kind].fetch_add(1, Ordering::Relaxed);
            let at = self.pipelines.iter().position(|other| core::ptr::eq(other, pipeline));
            let at = at.unwrap_or(self.pipelines.len());
            self.late_of[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sections that have seen each age.
    pub(super) fn ages(&self) -> Vec<u64> {
        self.ages.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Number of readers that have seen an item that was too old.
    pub(super) fn errors(&self) -> u64 {
        self.ages().iter().skip(AGE_ALLOWED as usize + 1).sum()
    }
}
