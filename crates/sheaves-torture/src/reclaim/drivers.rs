//! Threads that drive reclamation: barriers, drains, polls, and children of forks.

use core::alloc::Layout;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use sheaves_rcu::defer::{self, Channel, Head, barrier, call_hurry, call_rcu, flush, reclaim};
use sheaves_slab::raw::{Cache, Options};

use super::broken::{Batch, Broken};
use super::counts::{COUNTS, Deed};
use super::left::left;
use super::route::{ROUTES, Route};
use super::routes;
use super::world::WORLD;
use crate::random::Random;
use crate::rounds::Round;

/// The most objects before a barrier, of calls and of a cache.
const BEFORE_BARRIER: u64 = 400;
/// A child of a fork that does not end is killed after this time.
const CHILD_SECONDS: u32 = 40;

/// An object that a barrier must complete: counts how often it was freed.
#[repr(C)]
struct Counted {
    head: Head,
    count: AtomicU64,
}

unsafe extern "C" fn count_call(head: *mut Head) {
    // SAFETY: the head is the first field of such an object, which is never freed.
    unsafe { &*head.cast::<Counted>() }.count.fetch_add(1, Ordering::SeqCst);
}

unsafe fn count_free(object: *mut u8) {
    // SAFETY: as above.
    unsafe { count_call(object.cast()) };
}

static COUNTED: Channel = Channel::new("torture, before barriers", count_free);

/// A thread that defers objects of its own in every way, and waits until they are freed.
pub(super) fn wait_on(broken: Option<Broken>) {
    WORLD.signals.be_target();
    let options = Options::default();
    let cache = Cache::new("torture, before barriers", Layout::new::<[u64; 8]>(), options);
    let cache = cache.expect("a cache");
    let objects: &'static [Counted] = Box::leak(
        (0..BEFORE_BARRIER)
            .map(|_| Counted { head: Head::new(), count: AtomicU64::new(0) })
            .collect(),
    );
    let closures = Arc::new(AtomicU64::new(0));
    let (mut random, mut expected, mut expected_closures) = (Random::new(), 0, 0);
    while !WORLD.rounds.is_stopped() {
        if !WORLD.rounds.is_turn(Round::Few) {
            continue;
        }
        expected += 1;
        objects.iter().for_each(|object| defer_counted(object, &mut random));
        for _ in 0..random.below(20) {
            let closures = Arc::clone(&closures);
            expected_closures += 1;
            defer::defer(move || {
                closures.fetch_add(1, Ordering::SeqCst);
            });
        }
        let taken: Vec<_> = (0..random.below(BEFORE_BARRIER)).map(|_| cache.alloc()).collect();
        for object in taken.into_iter().flatten() {
            // SAFETY: from this cache, not used after.
            unsafe { cache.free_rcu(object) };
        }
        let waited = if broken == Some(Broken::Barrier) {
            // The error: partial sheaves are not sealed.
            sheaves_rcu::synchronize_expedited().map_err(|_| defer::BarrierError::InsideReader)
        } else {
            barrier()
        };
        let calls = objects.iter().filter(|o| o.count.load(Ordering::SeqCst) != expected).count();
        let closures = expected_closures - closures.load(Ordering::SeqCst);
        let deferred = cache.stats().objects_deferred;
        if waited.is_err() || (calls, closures, deferred) != (0, 0, 0) {
            COUNTS.note(format!(
                "a barrier ({waited:?}) has left {calls} calls, {closures} closures and \
                 {deferred} objects of a cache"
            ));
            // Later objects would be counted wrong.
            break;
        }
        COUNTS.did(Deed::Barrier);
        std::thread::sleep(Duration::from_micros(random.below(3_000)));
    }
    if broken != Some(Broken::Barrier)
        && let Err(error) = cache.destroy()
    {
        COUNTS.note(format!("the cache before barriers did not end: {error}"));
    }
    WORLD.signals.outlast();
}

fn defer_counted(object: &'static Counted, random: &mut Random) {
    let head = (&raw const object.head).cast_mut();
    let pointer = core::ptr::from_ref(object).cast_mut().cast();
    match random.below(400) {
        // SAFETY: the object is never freed, and the last barrier has made its head idle.
        0 => unsafe { call_hurry(head, count_call) },
        // SAFETY: as above.
        1..160 => unsafe { call_rcu(head, count_call) },
        // SAFETY: as above.
        160..280 => unsafe { COUNTED.free_later(pointer, size_of::<Counted>()) },
        // SAFETY: as above.
        _ => unsafe { COUNTED.free_later_with(head, pointer, size_of::<Counted>()) },
    }
}

/// A thread that drains slots, polls, and flushes.
pub(super) fn drain_on() {
    WORLD.signals.be_target();
    let mut random = Random::new();
    while !WORLD.rounds.is_stopped() {
        if WORLD.rounds.is_turn(Round::Crowd) {
            drain_somehow(&mut random);
        }
    }
    WORLD.signals.outlast();
}

/// The thread that also takes part in duels: it only drains.
pub(super) fn drain_and_duel() {
    WORLD.signals.be_target();
    let mut random = Random::new();
    while !WORLD.rounds.is_stopped() {
        if WORLD.rounds.is_duel() {
            shrink(Route::Cache);
            if random.one_in(20) {
                flush();
            }
            // Meanwhile the sheaves get some objects.
            (0..random.below(5_000)).for_each(|_| core::hint::spin_loop());
        } else if WORLD.rounds.is_turn(Round::Crowd) {
            drain_somehow(&mut random);
        }
    }
    WORLD.signals.outlast();
}

fn drain_somehow(random: &mut Random) {
    let deed = match random.below(8) {
        0 => {
            flush();
            Deed::Flush
        }
        1..4 => {
            let _ = reclaim();
            Deed::Poll
        }
        4 => {
            sheaves_slab::trim(0);
            Deed::Drain
        }
        _ => {
            let routes = [Route::Cache, Route::Constructor, Route::TypeStable, Route::Checked];
            shrink(routes[random.below(routes.len() as u64) as usize]);
            Deed::Drain
        }
    };
    COUNTS.did(deed);
    std::thread::sleep(Duration::from_micros(random.below(2_000)));
}

fn shrink(route: Route) {
    if let Some(cache) = WORLD.cache(route) {
        cache.shrink();
    }
}

/// A thread that forks. Its children use the library in the inherited state, and must end.
pub(super) fn fork_on() {
    let mut random = Random::new();
    while !WORLD.rounds.is_stopped() {
        if !WORLD.rounds.is_turn(Round::Crowd) {
            continue;
        }
        let guard = random.one_in(4).then(sheaves_rcu::read);
        // SAFETY: the child does what children may, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        drop(guard);
        if child < 0 {
            let error = std::io::Error::last_os_error();
            COUNTS.note(format!("no child could be forked: {error}"));
            break;
        }
        if child == 0 {
            let status = go_on_in_child(&mut random);
            // SAFETY: ends the child without running the parent's handlers.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: a place for the status.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited != child || status != 0 {
            let number = libc::WEXITSTATUS(status);
            let why = CHILD_ENDS.get(number as usize).filter(|_| libc::WIFEXITED(status));
            let why = why.copied().unwrap_or("it was killed");
            COUNTS.note(format!("a child of a fork has failed ({status:#x}): {why}"));
        } else {
            COUNTS.did(Deed::Fork);
        }
        std::thread::sleep(Duration::from_millis(5 + random.below(20)));
    }
}

/// The results of a child, by its exit status.
const CHILD_ENDS: [&str; 4] =
    ["well", "a barrier was refused", "something is left after a barrier", "an object has changed"];

fn go_on_in_child(random: &mut Random) -> i32 {
    // SAFETY: an integer.
    unsafe { libc::alarm(CHILD_SECONDS) };
    let mut batch = Batch::new(None);
    let before = COUNTS.faults();
    for (route, _) in ROUTES.into_iter().filter(|route| route.0 != Route::Passing) {
        for _ in 0..random.below(100) {
            routes::update(route, random, &mut batch);
        }
    }
    if barrier().is_err() {
        return 1;
    }
    let left = left();
    if !left.is_empty() {
        let line = format!("sheaves: torture reclaim: left in a child: {}\n", left.join("; "));
        // SAFETY: the bytes are valid for their length. Not by `std`, whose locks other threads
        // held.
        unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
        return 2;
    }
    if COUNTS.faults() == before { 0 } else { 3 }
}
