//! Torture of deferred reclamation, on every path by which an object can be deferred.
//!
//! - Readers hold objects of all paths: in sections that are nested, that defer others, in signal
//!   handlers at any instruction, and in threads that live for one section.
//! - Updaters replace the objects and defer the old ones. Meanwhile slots are drained, threads
//!   poll, flush and wait for barriers, caches with deferred objects are destroyed, the process
//!   forks, and one of a thousand requests for memory fails.
//! - Must not happen: an object changes under a reader; it is freed twice, or allocated while it is
//!   in use; a barrier leaves an object that was deferred before it; at the end there are objects
//!   left in the caches or in the statistics.

use core::time::Duration;
use std::sync::Mutex;

use sheaves_heap::report::totals;
use sheaves_rcu::defer::barrier;
use sheaves_rcu::internal;

use crate::crew::Crew;

mod broken;
mod counts;
mod drivers;
mod left;
mod object;
mod readers;
mod report;
mod route;
mod routes;
mod updaters;
mod world;

use broken::Batch;
pub use broken::Broken;
use counts::COUNTS;
use left::left;
pub use report::Report;
use world::WORLD;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Duration of the run.
    pub duration: Duration,
    /// An error to make, which must be detected.
    pub broken: Option<Broken>,
    /// One of this many requests for memory to defer with fails; 0 for none.
    pub fail_one_in: u32,
}

static ALONE: Mutex<()> = Mutex::new(());

/// Runs everything. One run at a time in a process; other calls wait.
///
/// # Errors
/// One line, if the run cannot begin.
pub fn run(options: &Options) -> Result<Report, String> {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = report::Before::now();
    let used_bytes = totals().used_bytes;
    WORLD.reset().map_err(|error| format!("there is no cache: {error}"))?;
    WORLD.signals.reset(readers::handle);
    internal::faults::FAULTS.fail_one_in(options.fail_one_in);
    sheaves_slab::internal::FAULTS.fail_one_in(options.fail_one_in);
    let crew = start(options.broken);
    // The first error proves the broken variant; there is no need to wait for more.
    let is_found = || COUNTS.faults() != 0 || !COUNTS.notes().is_empty();
    let seconds = WORLD.rounds.go_on(options.duration, is_found);
    let stuck = crew.end();
    internal::faults::FAULTS.fail_one_in(0);
    sheaves_slab::internal::FAULTS.fail_one_in(0);
    if stuck.is_empty() {
        end(used_bytes);
    }
    Ok(Report::new(seconds, &before, &stuck))
}

/// Starts the threads of each kind.
fn start(broken: Option<Broken>) -> Crew {
    let processors = std::thread::available_parallelism().map_or(1, usize::from).clamp(2, 8);
    let mut crew = Crew::new();
    crew.start("reads", processors + 1, move || readers::read_on(broken));
    crew.start("updates-and-duels", 1, move || updaters::update_and_duel(broken));
    crew.start("updates", processors - 1, move || updaters::update_on(broken));
    crew.start("makes-threads", 1, updaters::make_threads);
    crew.start("makes-caches", 1, updaters::make_caches);
    crew.start("waits", 2, move || drivers::wait_on(broken));
    crew.start("drains-and-duels", 1, drivers::drain_and_duel);
    crew.start("drains", 1, drivers::drain_on);
    crew.start("forks", 1, drivers::fork_on);
    crew.start("disturbs", 1, || WORLD.signals.disturb(&WORLD.rounds));
    crew
}

/// Called when all threads have ended: frees everything, and checks that nothing is left.
fn end(used_bytes: usize) {
    let mut batch = Batch::new(None);
    routes::empty_places(&mut batch);
    if let Err(error) = barrier() {
        COUNTS.note(format!("the last barrier: {error}"));
    }
    left().into_iter().for_each(|line| COUNTS.note(format!("left after the last barrier: {line}")));
    for (route, name) in route::ROUTES {
        let [made, deferred, ended] = COUNTS.counts(route);
        if made != deferred || (route.is_called() && ended != deferred) {
            COUNTS.note(format!("{name}: {made} made, {deferred} deferred, {ended} freed"));
        }
    }
    WORLD.empty_graves();
    for cache in WORLD.take_caches() {
        if let Err(error) = cache.destroy() {
            COUNTS.note(format!("at the end {error}"));
        }
    }
    let used = totals().used_bytes;
    if used != used_bytes {
        COUNTS
            .note(format!("{used_bytes} bytes of the heap were used before the run, {used} after"));
    }
}
