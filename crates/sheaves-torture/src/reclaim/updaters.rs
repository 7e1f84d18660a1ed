//! Updaters: for the whole run, for a moment, and in caches that are destroyed.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::thread::JoinHandle;

use sheaves_slab::raw::{Cache, Options};

use super::broken::{Batch, Broken};
use super::counts::{COUNTS, Deed};
use super::object::Body;
use super::readers;
use super::route::{ROUTES, Route};
use super::routes;
use super::world::WORLD;
use crate::cache_misses::CacheMisses;
use crate::random::Random;
use crate::rounds::Round;

/// Bytes of stack of a short thread.
const STACK_BYTES: usize = 64 << 10;
/// Short threads that are alive at a time, for each thread that creates them.
const SHORT_THREADS: usize = 8;
/// The most allocated objects of a burst.
const BURST: u64 = 3000;
/// The most allocated objects of a cache that is destroyed.
const PASSING: u64 = 3000;

/// A thread that updates until the run ends.
pub(super) fn update_on(broken: Option<Broken>) {
    WORLD.signals.be_target();
    let (mut random, mut batch) = (Random::new(), Batch::new(broken));
    while !WORLD.rounds.is_stopped() {
        if WORLD.rounds.is_turn(Round::Few) {
            update_some(&mut random, &mut batch);
        }
    }
    batch.end();
    WORLD.signals.outlast();
}

/// The updater that also takes part in duels: it pushes, while another thread drains the slots.
pub(super) fn update_and_duel(broken: Option<Broken>) {
    WORLD.signals.be_target();
    let (mut random, mut batch) = (Random::new(), Batch::new(broken));
    let mut misses = CacheMisses::new();
    while !WORLD.rounds.is_stopped() {
        if WORLD.rounds.is_duel() {
            routes::duel(&mut misses, &mut random);
        } else {
            update_some(&mut random, &mut batch);
        }
    }
    batch.end();
    WORLD.signals.outlast();
}

/// Replaces a few objects of one route in a row, so that sheaves and blocks are filled; seldom, but
/// at least once, very many.
fn update_some(random: &mut Random, batch: &mut Batch) {
    let route = any_route(random);
    if random.one_in(1_000) || COUNTS.number_of(Deed::Burst) == 0 {
        let count = random.below(BURST) as usize;
        routes::burst(route, count, random, batch);
        COUNTS.did(Deed::Burst);
    }
    for _ in 0..random.below(40) {
        routes::update(route, random, batch);
    }
}

/// A random route that every thread may use; the slow ones seldom, once they were used.
fn any_route(random: &mut Random) -> Route {
    let route = ROUTES[random.below(ROUTES.len() as u64) as usize].0;
    let is_slow = matches!(route, Route::Large | Route::Hurry | Route::Checked);
    let [_, deferred, _] = COUNTS.counts(route);
    match route {
        Route::Passing => Route::Cache,
        _ if is_slow && deferred > 0 && !random.one_in(16) => Route::Small,
        _ => route,
    }
}

/// A thread that creates threads, each of which reads once, defers a few objects, and ends.
pub(super) fn make_threads() {
    while !WORLD.rounds.is_stopped() {
        if WORLD.rounds.is_turn(Round::Crowd) {
            let threads: Vec<_> = (0..SHORT_THREADS).filter_map(|_| short_thread()).collect();
            for thread in threads {
                thread.join().expect("a short thread ends");
                COUNTS.did(Deed::Thread);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// None if the kernel has no more threads.
fn short_thread() -> Option<JoinHandle<()>> {
    let body = || {
        let (mut random, mut batch) = (Random::new(), Batch::new(None));
        readers::section(&mut random, &mut batch);
        for _ in 0..random.below(6) {
            routes::update(any_route(&mut random), &mut random, &mut batch);
        }
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(body).ok()
}

/// A thread that creates caches, whose objects readers find, and destroys them.
pub(super) fn make_caches() {
    let mut random = Random::new();
    while !WORLD.rounds.is_stopped() {
        if WORLD.rounds.is_turn(Round::Crowd) {
            pass(&mut random);
        }
    }
}

fn pass(random: &mut Random) {
    let options = Options {
        typesafe_by_rcu: random.one_in(3),
        debug: random.one_in(6),
        ..Options::default()
    };
    let bytes = 64 + 8 * random.below(60) as usize;
    let layout = Layout::from_size_align(bytes, 8).expect("a layout");
    // Without memory it is tried again later.
    let Ok(cache) = Cache::new("torture that ends", layout, options) else { return };
    let places = &WORLD.places[Route::Passing as usize];
    for _ in 0..random.below(PASSING) {
        let Some(object) = cache.alloc() else { continue };
        // SAFETY: of that many bytes, and ours.
        let body = unsafe { Body::at(object.as_ptr()) };
        body.begin(Route::Passing, bytes, random.below(1 << 50));
        let place = &places[random.below(places.len() as u64) as usize];
        give_up(&cache, place.swap(body.address(), Ordering::AcqRel));
    }
    for place in places {
        give_up(&cache, place.swap(null_mut(), Ordering::AcqRel));
    }
    // Only readers use the objects: `destroy` waits for them.
    match cache.destroy() {
        Ok(()) => COUNTS.did(Deed::Ended),
        Err(error) => COUNTS.note(format!("a cache did not end: {error}")),
    }
}

/// Defers the object that was in a place, if there was one.
fn give_up(cache: &Cache, old: *mut u8) {
    let Some(old) = NonNull::new(old) else { return };
    // SAFETY: these places contain objects of this cache only, while it exists.
    unsafe { Body::at(old.as_ptr()) }.defer(Route::Passing);
    // SAFETY: from this cache, and only readers use it.
    unsafe { cache.free_rcu(old) };
}
