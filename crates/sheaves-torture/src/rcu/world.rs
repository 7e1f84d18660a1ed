//! What the threads and handlers of a run share, and what they have counted.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use sheaves_rcu::Srcu;

use crate::pipeline::{AGE_ALLOWED, GENERATIONS, Item, Pipeline};

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
pub(super) const UPDATES: [&str; 7] =
    ["synchronize", "expedited", "expedite-guard", "cookie-wait", "polled", "async", "domain"];
pub(super) const SYNCHRONIZE: usize = 0;
pub(super) const EXPEDITED: usize = 1;
pub(super) const EXPEDITE_GUARD: usize = 2;
pub(super) const COOKIE_WAIT: usize = 3;
pub(super) const POLLED: usize = 4;
pub(super) const ASYNC: usize = 5;
pub(super) const DOMAIN_UPDATE: usize = 6;

/// Whose pipelines there are, in their order.
pub(super) const PIPELINES: [&str; 4] = ["blocks", "polls", "awaits", "domain"];

/// Who takes part: mistakes of different kinds show in different company. Rounds come in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Round {
    /// Everybody.
    Crowd = 0,
    /// Readers and updaters of the default domain, undisturbed: grace periods overlap with others'.
    Few = 1,
    /// One reader beside one updater, each with a processor of its own: single steps overlap.
    Duel = 2,
}

/// Rounds in the order in which they come, with their milliseconds.
pub(super) const ROUNDS: [(Round, u64); 3] =
    [(Round::Crowd, 400), (Round::Few, 150), (Round::Duel, 150)];

/// What a run is made of. One for the process.
pub(super) struct World {
    /// Those of the default domain: of the updaters that block, that poll, and that await.
    pub(super) pipelines: [Pipeline; 3],
    /// That of the domain of its own.
    pub(super) domain_pipeline: Pipeline,
    pub(super) domain: OnceLock<Srcu>,
    stop: AtomicBool,
    round: AtomicU64,
    /// Threads that send signals.
    pub(super) disturbers: AtomicU64,
    /// Threads that signals are sent to. They stay until `disturbers` is 0.
    pub(super) targets: Mutex<Vec<libc::pthread_t>>,
    pub(super) sections: [AtomicU64; SECTIONS.len()],
    pub(super) updates: [AtomicU64; UPDATES.len()],
    /// Sections that have seen something too old: by kind, and by whose pipeline it was.
    pub(super) late: [AtomicU64; SECTIONS.len()],
    pub(super) late_of: [AtomicU64; PIPELINES.len()],
    /// How many readers have seen which age.
    ages: [AtomicU64; GENERATIONS as usize + 1],
    /// Threads that came and went.
    pub(super) threads: AtomicU64,
    pub(super) domains: AtomicU64,
}

pub(super) static WORLD: World = World {
    pipelines: [const { Pipeline::new() }; 3],
    domain_pipeline: Pipeline::new(),
    domain: OnceLock::new(),
    stop: AtomicBool::new(false),
    round: AtomicU64::new(0),
    disturbers: AtomicU64::new(0),
    targets: Mutex::new(Vec::new()),
    sections: [const { AtomicU64::new(0) }; SECTIONS.len()],
    updates: [const { AtomicU64::new(0) }; UPDATES.len()],
    late: [const { AtomicU64::new(0) }; SECTIONS.len()],
    late_of: [const { AtomicU64::new(0) }; PIPELINES.len()],
    ages: [const { AtomicU64::new(0) }; GENERATIONS as usize + 1],
    threads: AtomicU64::new(0),
    domains: AtomicU64::new(0),
};

impl World {
    /// Before a run, while nobody takes part.
    pub(super) fn reset(&self) {
        self.pipelines.iter().chain([&self.domain_pipeline]).for_each(Pipeline::reset);
        let counts = self.sections.iter().chain(&self.updates).chain(&self.ages);
        let counts = counts.chain(&self.late).chain(&self.late_of);
        for count in
            counts.chain([&self.round]).chain([&self.threads, &self.domains, &self.disturbers])
        {
            count.store(0, Ordering::Relaxed);
        }
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.stop.store(false, Ordering::SeqCst);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Begins another round.
    pub(super) fn begin_round(&self, round: Round) {
        self.round.store(round as u64, Ordering::Relaxed);
    }

    /// Is it the turn of those who take part up to a round? If not, some time passes.
    pub(super) fn is_turn(&self, last: Round) -> bool {
        let is_turn = self.round.load(Ordering::Relaxed) <= last as u64;
        if !is_turn {
            std::thread::sleep(core::time::Duration::from_millis(1));
        }
        is_turn
    }

    /// Is this the round of one against one?
    pub(super) fn is_duel(&self) -> bool {
        self.round.load(Ordering::Relaxed) == Round::Duel as u64
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// The domain of its own, which is made before any thread starts.
    pub(super) fn domain(&self) -> &Srcu {
        self.domain.get().expect("the domain is made before the threads")
    }

    /// At the end of a section: was the item too old? Async-signal-safe.
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

    /// How many readers have seen something that was too old.
    pub(super) fn errors(&self) -> u64 {
        self.ages().iter().skip(AGE_ALLOWED as usize + 1).sum()
    }

    /// Makes the calling thread one that signals are sent to, until the run ends.
    pub(super) fn be_target(&self) {
        // SAFETY: no precondition.
        let thread = unsafe { libc::pthread_self() };
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    /// At the end of such a thread: waits until nobody sends signals any more.
    pub(super) fn outlast_signals(&self) {
        while self.disturbers.load(Ordering::Acquire) != 0 {
            std::thread::sleep(core::time::Duration::from_millis(1));
        }
    }
}
