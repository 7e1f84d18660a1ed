//! Rounds: seal everything, wait for one grace period for all of it, reclaim everything.
//!
//! A barrier takes a number, and waits for a round that begins after that. A round answers all
//! numbers that were taken before it began.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `WANTED` | number of barriers so far | each barrier |
//! | `DONE` | the last barrier that is answered; both wrap | the driver, at the end of a round |

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use sheaves_sys::{clock, futex};

use super::bell::{self, READY};
use super::calls::Place;
use super::driver::{self, Driver};
use super::{calls, channel, domains, follow, layers};
use crate::defer::store::extents::SHEAVES;
use crate::defer::store::pressure::{self, Pressure};
use crate::grace::cookie::Cookie;

static WANTED: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);
/// The last round did not reach every slot. Written by the driver.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);
/// What is sealed, by the lowest bit of its cookie: at most two cookies wait at a time.
static SEALED: [Deferred; 2] =
    [const { Deferred { since_ms: AtomicU64::new(0), cookie: AtomicU64::new(0) } }; 2];
/// When the oldest object in an unreached slot was deferred, 0 for none. Written by the driver.
static UNREACHED_MS: AtomicU64 = AtomicU64::new(0);
/// The cookie that `reclaim` and `flush` advance without waiting. Written by the driver.
static POLLED: AtomicU64 = AtomicU64::new(0);
pub(crate) static ASKED: AtomicU64 = AtomicU64::new(0);

/// What waits for one cookie, or for an earlier one. Written by the driver.
struct Deferred {
    /// When the oldest of it was deferred, 0 for nothing.
    since_ms: AtomicU64,
    cookie: AtomicU64,
}

impl Deferred {
    fn note(since_ms: u64) {
        let cookie = Cookie::get().to_bits();
        let Deferred { since_ms: oldest_ms, cookie: last } = &SEALED[(cookie % 2) as usize];
        // Relaxed, all of this type: only the driver writes it. A time that is there is older.
        if oldest_ms.load(Ordering::Relaxed) == 0 {
            oldest_ms.store(since_ms, Ordering::Relaxed);
        }
        last.store(cookie, Ordering::Relaxed);
    }

    fn has_passed(&self) -> bool {
        // Relaxed: as in `note`.
        Cookie::from_bits(self.cookie.load(Ordering::Relaxed)).has_passed()
    }
}

/// Takes the number of a barrier.
pub(crate) fn ask() -> u32 {
    // SeqCst: a round that reads this number finds what was deferred before; and this is before the
    // request, so the round that fulfils it reads this number. Pairs with `full`. [B2]
    WANTED.fetch_add(1, Ordering::SeqCst).wrapping_add(1)
}

/// Sleeps until a barrier is answered, at most for this time; true if it is.
pub(crate) fn is_done_soon(number: u32, nanoseconds: u64) -> bool {
    // Relaxed: `is_done` orders.
    let done = DONE.load(Ordering::Relaxed);
    if !is_done(number) {
        futex::wait_for(&DONE, done, nanoseconds);
    }
    is_done(number)
}

pub(crate) fn is_incomplete() -> bool {
    // Relaxed: of the round that the caller has waited for, or of a later one.
    IS_INCOMPLETE.load(Ordering::Relaxed)
}

/// True if a barrier is answered. Numbers wrap.
pub(crate) fn is_done(number: u32) -> bool {
    // Acquire pairs with the Release in `full`: the callbacks have run. [B2]
    DONE.load(Ordering::Acquire).wrapping_sub(number) < 1 << 31
}

/// Seals everything, and starts a grace period for it.
pub(crate) fn seal_and_start(driver_role: &Driver) {
    let _ = seal(driver_role);
    start_grace_period();
}

/// Starts a grace period for what is sealed.
fn start_grace_period() {
    let cookie = Cookie::get();
    // Relaxed, both: the driver's own; statistics.
    POLLED.store(cookie.to_bits(), Ordering::Relaxed);
    ASKED.fetch_add(1, Ordering::Relaxed);
    cookie.start();
}

/// Advances a grace period, or starts another one if something is sealed.
pub(crate) fn poll_grace_period() {
    // Relaxed: only the driver writes it.
    let polled = Cookie::from_bits(POLLED.load(Ordering::Relaxed));
    if !polled.has_passed() {
        let _ = polled.poll();
    } else if pressure::sealed()[0] != 0 {
        start_grace_period();
    }
}

/// Seals everything. False where a slot was not reached: it is tried again after the age bound.
fn seal(driver_role: &Driver) -> bool {
    // Relaxed, here and below: written by the driver; statistics.
    let unreached_ms = UNREACHED_MS.swap(0, Ordering::Relaxed);
    let unreached = (unreached_ms != 0).then_some(unreached_ms);
    let since = pressure::disarm().into_iter().chain(unreached).min();
    let is_complete = calls::seal_all();
    channel::seal_all();
    domains::seal(driver_role);
    let is_complete =
        layers::layers().fold(is_complete, |is_complete, layer| layer.seal() & is_complete);
    if let Some(since_ms) = since {
        Deferred::note(since_ms);
    }
    if !is_complete {
        UNREACHED_MS.store(since.unwrap_or_else(clock::coarse_ms), Ordering::Relaxed);
        pressure::arm();
    }
    is_complete
}

/// Reclaims what is ready; true if something was. What that defers in turn does not wait for the
/// age bound: it is sealed, and the reclaimer is asked for its grace period.
pub(crate) fn reclaim(driver_role: &Driver) -> bool {
    // Read first: what passes later may not be reclaimed below.
    let have_passed = SEALED.each_ref().map(Deferred::has_passed);
    let any_call = driver::run_calls(driver_role);
    let place = Place::here();
    let any_call = domains::advance(driver_role) | any_call;
    let any = free_ready() | any_call;
    let mut follows = any && place.seal_followers().is_some();
    if driver::take_followers(driver_role) && follow::is_affordable() {
        channel::seal_all();
        domains::seal(driver_role);
        follows = true;
    }
    if follows {
        follow::spend(follow::ROUND_NS);
        bell::request(READY);
    }
    for (sealed, _) in SEALED.iter().zip(have_passed).filter(|(_, has_passed)| *has_passed) {
        // Relaxed: as in `Deferred`.
        sealed.since_ms.store(0, Ordering::Relaxed);
    }
    calls::refuse_open_section();
    any
}

/// Reclaims what is ready and needs no callback; true if something was.
fn free_ready() -> bool {
    layers::layers().fold(channel::free_ready(), |any, layer| any | layer.reclaim())
}

/// A whole round: reclaims everything that was deferred before. Waits for readers.
pub(crate) fn full(driver_role: &Driver, is_urgent: bool) {
    // SeqCst pairs with `barrier`. [B2]
    let wanted = WANTED.load(Ordering::SeqCst);
    let is_complete = seal(driver_role);
    wait(driver_role, is_urgent);
    reclaim(driver_role);
    SHEAVES.refill();
    // Relaxed: published by the Release below.
    IS_INCOMPLETE.store(!is_complete, Ordering::Relaxed);
    // Release pairs with the Acquire in `is_done`. [B2]
    if DONE.swap(wanted, Ordering::Release) != wanted {
        futex::wake_all(&DONE);
    }
}

/// Reclaims what is sealed, after a grace period if nothing is ready.
pub(crate) fn reclaim_sealed(driver_role: &Driver) {
    if !reclaim(driver_role) {
        wait(driver_role, false);
        reclaim(driver_role);
    }
}

/// Waits until everything that is sealed now has passed. The driver is not a reader. What passes
/// with the grace period that is under way is reclaimed before the wait for the next one.
fn wait(driver_role: &Driver, is_urgent: bool) {
    // Relaxed: statistics.
    ASKED.fetch_add(1, Ordering::Relaxed);
    let wait_for = |cookie: Cookie| {
        let is_urgent = is_urgent || pressure::pressure() >= Pressure::High;
        let waited = if is_urgent { cookie.wait_expedited() } else { cookie.wait() };
        debug_assert!(waited.is_ok());
    };
    let cookie = Cookie::get();
    let before = Cookie::from_bits(cookie.to_bits() - 1);
    if !before.has_passed() {
        wait_for(before);
        reclaim(driver_role);
    }
    wait_for(cookie);
}

/// Reclaims what is ready, in a thread that has deferred too much; runs no callbacks.
pub(crate) fn help() {
    if let Some(_driver_role) = driver::try_become_driver() {
        free_ready();
    }
}

/// When the oldest pending object was deferred, in ms of the clock.
pub(crate) fn oldest_ms() -> Option<u64> {
    let sealed = SEALED.iter().map(|sealed| &sealed.since_ms).chain([&UNREACHED_MS]);
    // Relaxed: statistics.
    let sealed = sealed.map(|since_ms| since_ms.load(Ordering::Relaxed)).filter(|ms| *ms != 0);
    sealed.chain(pressure::armed_ms()).chain(domains::since_ms()).min()
}
