//! Readers: each holds an object for the time of a section, and checks that it stays unchanged.

use core::sync::atomic::Ordering;
use core::time::Duration;

use sheaves_rcu::{Guard, read};

use super::broken::{Batch, Broken};
use super::counts::{COUNTS, Deed};
use super::object::{Body, Seen};
use super::route::{ROUTES, Route};
use super::routes;
use super::world::{POINTERS_PER_ROUTE, WORLD};
use crate::random::Random;
use crate::rounds::Round;

/// The most nested sections.
const NESTING_MAX: usize = 4;

/// The object in a place of a route. Async-signal-safe.
fn find(route: Route, place: usize, guard: &Guard) -> Option<Seen> {
    if route == Route::Retired {
        let value = WORLD.cells[place].load(guard)?;
        let address = core::ptr::from_ref(value).cast_mut().cast();
        // SAFETY: an object in a cell stays while the guard lasts: that is what is tested.
        return Some(Seen::new(unsafe { Body::at(address) }, route));
    }
    let found = WORLD.places[route as usize][place].load(Ordering::Acquire);
    // SAFETY: null, or an object, which stays while the guard lasts: that is what is tested.
    (!found.is_null()).then(|| Seen::new(unsafe { Body::at(found) }, route))
}

/// Stays for a moment: mostly a short one, seldom some milliseconds.
fn dwell(random: &mut Random) {
    match random.below(5_000) {
        0 => std::thread::sleep(Duration::from_micros(random.below(10_000))),
        1..50 => std::thread::sleep(Duration::from_micros(random.below(200))),
        50..400 => std::thread::yield_now(),
        _ => (0..random.below(100)).for_each(|_| core::hint::spin_loop()),
    }
}

/// One section. Some hold several objects, some defer others meanwhile.
pub(super) fn section(random: &mut Random, batch: &mut Batch) {
    let guard = read();
    let depth = if random.one_in(4) { 1 + random.below(NESTING_MAX as u64 - 1) } else { 0 };
    let guards: Vec<Guard> = (0..depth).map(|_| read()).collect();
    let seen: [Option<Seen>; 3] = core::array::from_fn(|_| {
        let route = ROUTES[random.below(ROUTES.len() as u64) as usize].0;
        find(route, random.below(POINTERS_PER_ROUTE as u64) as usize, &guard)
    });
    let defers = random.one_in(20);
    if defers {
        routes::update(Route::any_of_readers(random), random, batch);
    }
    dwell(random);
    drop(guards);
    seen.iter().flatten().for_each(Seen::check);
    drop(guard);
    COUNTS.did(match (defers, depth) {
        (true, _) => Deed::Defers,
        (_, 0) => Deed::Section,
        _ => Deed::Nested,
    });
}

/// A thread that reads until the run ends.
pub(super) fn read_on(broken: Option<Broken>) {
    WORLD.signals.be_target();
    let (mut random, mut batch) = (Random::new(), Batch::new(broken));
    while !WORLD.rounds.is_stopped() {
        if WORLD.rounds.is_turn(Round::Few) {
            section(&mut random, &mut batch);
        }
    }
    batch.end();
    WORLD.signals.outlast();
}

/// Reads wherever the signal interrupts the thread: while it defers, seals or drains.
pub(super) extern "C" fn handle(_: libc::c_int) {
    // The number of handlers so far, instead of a random number, which a handler cannot draw.
    let turn = COUNTS.number_of(Deed::Handler) as usize;
    let guard = read();
    let seen: [Option<Seen>; 2] = core::array::from_fn(|index| {
        find(ROUTES[(turn + index * 5) % ROUTES.len()].0, turn / 7 % POINTERS_PER_ROUTE, &guard)
    });
    (0..turn % 200).for_each(|_| core::hint::spin_loop());
    seen.iter().flatten().for_each(Seen::check);
    drop(guard);
    COUNTS.did(Deed::Handler);
}
