//! Shared state of the threads and handlers of a run, and their counts.

use core::alloc::Layout;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sheaves_heap as heap;
use sheaves_rcu::RcuOption;
use sheaves_slab::raw::{Cache, CacheError, Options};

use super::object::{self, Body};
use super::routes::{Dropping, ROUTES, Route};
use crate::rounds::Rounds;
use crate::signals::Signals;

/// Number of places of each route, which readers read.
pub(super) const PLACES: usize = 8;
/// The most objects that are kept for a while before they are freed.
const GRAVES: usize = 4096;
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

/// Counts of one kind for each route.
type Counts = [AtomicU64; ROUTES.len()];

const fn counts() -> Counts {
    [const { AtomicU64::new(0) }; ROUTES.len()]
}

/// The state of a run. One for the process.
pub(super) struct World {
    pub(super) places: [[AtomicPtr<u8>; PLACES]; ROUTES.len()],
    pub(super) cells: [RcuOption<Dropping>; PLACES],
    /// The caches of those routes that have one.
    caches: [AtomicPtr<Cache>; ROUTES.len()],
    graves: [AtomicPtr<u8>; GRAVES],
    next_grave: AtomicU64,
    pub(super) rounds: Rounds,
    pub(super) signals: Signals,
    made: Counts,
    deferred: Counts,
    ended: Counts,
    faults: [Counts; FAULTS.len()],
    deeds: [AtomicU64; DEEDS.len()],
    /// Violations that do not concern single objects.
    notes: Mutex<Vec<String>>,
}

pub(super) static WORLD: World = World {
    places: [const { [const { AtomicPtr::new(null_mut()) }; PLACES] }; ROUTES.len()],
    cells: [const { RcuOption::empty() }; PLACES],
    caches: [const { AtomicPtr::new(null_mut()) }; ROUTES.len()],
    graves: [const { AtomicPtr::new(null_mut()) }; GRAVES],
    next_grave: AtomicU64::new(0),
    rounds: Rounds::new(),
    signals: Signals::new(),
    made: counts(),
    deferred: counts(),
    ended: counts(),
    faults: [const { counts() }; FAULTS.len()],
    deeds: [const { AtomicU64::new(0) }; DEEDS.len()],
    notes: Mutex::new(Vec::new()),
};

impl World {
    /// Called before a run, while no thread takes part.
    ///
    /// # Errors
    /// When a cache cannot be created.
    pub(super) fn reset(&self) -> Result<(), CacheError> {
        let counts = [&self.made, &self.deferred, &self.ended].into_iter().chain(&self.faults);
        for count in counts.flatten().chain(&self.deeds) {
            count.store(0, Ordering::Relaxed);
        }
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for route in [Route::Cache, Route::Constructor, Route::TypeStable, Route::Checked] {
            let options = Options {
                typesafe_by_rcu: route == Route::TypeStable,
                debug: route == Route::Checked,
                ..Options::default()
            };
            let layout = Layout::new::<[u64; 14]>();
            let name = ROUTES[route as usize].1;
            let cache = if route.is_constructed() {
                // SAFETY: it writes to the object, which is large enough.
                unsafe { Cache::with_constructor(name, layout, options, object::construct)? }
            } else {
                Cache::new(name, layout, options)?
            };
            let cache = Box::new(cache);
            self.caches[route as usize].store(Box::into_raw(cache), Ordering::Release);
        }
        self.rounds.reset();
        Ok(())
    }

    /// The cache of a route, while there is a run.
    pub(super) fn cache(&self, route: Route) -> Option<&'static Cache> {
        // SAFETY: null, or from a box that lives until all threads have ended.
        unsafe { self.caches[route as usize].load(Ordering::Acquire).as_ref() }
    }

    /// The caches, to be destroyed now. No thread uses them.
    pub(super) fn take_caches(&self) -> Vec<Cache> {
        let taken = self.caches.iter().map(|cache| cache.swap(null_mut(), Ordering::AcqRel));
        let taken = taken.filter(|cache| !cache.is_null());
        // SAFETY: from a box, once.
        taken.map(|cache| *unsafe { Box::from_raw(cache) }).collect()
    }

    /// Keeps an object for a while, and frees the one that it replaces. Waits for no thread, so
    /// that a child of a fork can do it.
    pub(super) fn bury(&self, body: &'static Body) {
        let number = self.next_grave.fetch_add(1, Ordering::Relaxed) as usize % GRAVES;
        let old = self.graves[number].swap(body.address(), Ordering::AcqRel);
        // SAFETY: null, or from the heap, and ended long ago.
        unsafe { heap::free(old) };
    }

    /// Frees all objects that were kept.
    pub(super) fn empty_graves(&self) {
        for grave in &self.graves {
            // SAFETY: as above.
            unsafe { heap::free(grave.swap(null_mut(), Ordering::AcqRel)) };
        }
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

    /// Number of sections in handlers so far.
    pub(super) fn turn(&self) -> usize {
        self.deeds[Deed::Handler as usize].load(Ordering::Relaxed) as usize
    }

    pub(super) fn deeds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DEEDS.into_iter().zip(self.deeds.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
