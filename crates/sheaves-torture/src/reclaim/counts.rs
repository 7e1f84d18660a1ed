//! What a run counts: objects, actions, violations.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::route::{ROUTES, Route};

/// The most lines that are kept.
const NOTES_MAX: usize = 20;

/// Violations at an object.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// It changed while a reader used it.
    Early,
    /// It was allocated while it was in use.
    Twice,
    /// It was deferred or freed in an impossible state.
    State,
    /// The constructor's contents are missing.
    Constructor,
}

/// The violations in the words of reports.
pub(super) const FAULTS: [&str; 4] = [
    "changed under a reader",
    "were handed out while in use",
    "were freed that were not deferred, or twice",
    "have lost what their constructor wrote",
];

/// Kinds of sections, and of other actions, as they are named in reports.
pub(super) const DEEDS: [&str; 13] = [
    "section",
    "section-nested",
    "section-that-defers",
    "section-in-handler",
    "barrier",
    "flush",
    "poll",
    "drain",
    "fork",
    "thread",
    "cache-that-ended",
    "burst",
    "duel",
];

/// An action that is counted.
#[derive(Clone, Copy)]
pub(super) enum Deed {
    Section = 0,
    Nested,
    Defers,
    Handler,
    Barrier,
    Flush,
    Poll,
    Drain,
    Fork,
    Thread,
    Ended,
    Burst,
    Duel,
}

/// PerRoute of one kind for each route.
type PerRoute = [AtomicU64; ROUTES.len()];

const fn counts() -> PerRoute {
    [const { AtomicU64::new(0) }; ROUTES.len()]
}

/// The counts of a run. One for the process.
pub(super) struct Counts {
    made: PerRoute,
    deferred: PerRoute,
    ended: PerRoute,
    faults: [PerRoute; FAULTS.len()],
    deeds: [AtomicU64; DEEDS.len()],
    /// Violations that do not concern single objects.
    notes: Mutex<Vec<String>>,
}

pub(super) static COUNTS: Counts = Counts {
    made: counts(),
    deferred: counts(),
    ended: counts(),
    faults: [const { counts() }; FAULTS.len()],
    deeds: [const { AtomicU64::new(0) }; DEEDS.len()],
    notes: Mutex::new(Vec::new()),
};

impl Counts {
    /// Called before a run, while no thread takes part.
    pub(super) fn reset(&self) {
        let counts = [&self.made, &self.deferred, &self.ended].into_iter().chain(&self.faults);
        for count in counts.flatten().chain(&self.deeds) {
            count.store(0, Ordering::Relaxed);
        }
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn made(&self, route: Route) {
        self.made[route as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn deferred(&self, route: Route) {
        self.deferred[route as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, route: Route) {
        self.ended[route as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of objects of a route that were allocated, deferred, and freed by a function.
    pub(super) fn counts(&self, route: Route) -> [u64; 3] {
        [&self.made, &self.deferred, &self.ended]
            .map(|counts| counts[route as usize].load(Ordering::SeqCst))
    }

    /// Counts a violation. Async-signal-safe.
    pub(super) fn fault(&self, fault: Fault, route: Route) {
        self.faults[fault as usize][route as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of violations of a kind, by route.
    pub(super) fn faults_of(&self, fault: usize) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.faults[fault].iter().map(|count| count.load(Ordering::Relaxed));
        ROUTES.iter().map(|route| route.1).zip(counts).filter(|(_, count)| *count != 0)
    }

    pub(super) fn faults(&self) -> u64 {
        self.faults.iter().flatten().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Records a violation in words.
    pub(super) fn note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < NOTES_MAX {
            notes.push(note);
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts an action. Async-signal-safe.
    pub(super) fn did(&self, deed: Deed) {
        self.deeds[deed as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of actions of a kind so far.
    pub(super) fn number_of(&self, deed: Deed) -> u64 {
        self.deeds[deed as usize].load(Ordering::Relaxed)
    }

    pub(super) fn deeds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DEEDS.into_iter().zip(self.deeds.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
