//! Shared state of the threads and handlers of a run.

use core::alloc::Layout;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use sheaves_heap as heap;
use sheaves_rcu::RcuOption;
use sheaves_slab::raw::{Cache, CacheError, Options};

use super::counts::COUNTS;
use super::object::{self, Body, Dropping};
use super::route::{ROUTES, Route};
use crate::rounds::Rounds;
use crate::signals::Signals;

/// Pointers to objects in each route: readers load them, updaters replace them.
pub(super) const POINTERS_PER_ROUTE: usize = 8;
/// The most objects that are kept for a while before they are freed.
const GRAVES: usize = 4096;

/// The state of a run. One for the process.
pub(super) struct World {
    pub(super) places: [[AtomicPtr<u8>; POINTERS_PER_ROUTE]; ROUTES.len()],
    pub(super) cells: [RcuOption<Dropping>; POINTERS_PER_ROUTE],
    /// The caches of those routes that have one.
    caches: [AtomicPtr<Cache>; ROUTES.len()],
    graves: [AtomicPtr<u8>; GRAVES],
    next_grave: AtomicU64,
    pub(super) rounds: Rounds,
    pub(super) signals: Signals,
}

pub(super) static WORLD: World = World {
    places: [const { [const { AtomicPtr::new(null_mut()) }; POINTERS_PER_ROUTE] }; ROUTES.len()],
    cells: [const { RcuOption::empty() }; POINTERS_PER_ROUTE],
    caches: [const { AtomicPtr::new(null_mut()) }; ROUTES.len()],
    graves: [const { AtomicPtr::new(null_mut()) }; GRAVES],
    next_grave: AtomicU64::new(0),
    rounds: Rounds::new(),
    signals: Signals::new(),
};

impl World {
    /// Called before a run, while no thread takes part.
    ///
    /// # Errors
    /// When a cache cannot be created.
    pub(super) fn reset(&self) -> Result<(), CacheError> {
        COUNTS.reset();
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
}
