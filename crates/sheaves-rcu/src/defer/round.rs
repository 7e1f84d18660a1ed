//! Rounds: everything is sealed, one grace period passes for all of it, everything is taken back.
//!
//! A barrier is a round that begins after it. Many share one: each takes a number before it waits,
//! and a round answers all numbers that were taken before it began.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `WANTED` | barriers so far | each barrier |
//! | `DONE` | those that are answered, in numbers that wrap | the driver, at the end of a round |

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use sheaves_sys::{clock, fork, futex, report};

use super::driver::{self, Driving};
use super::pool::{BLOCKS, SHEAVES};
use super::pressure::{self, Pressure};
use super::reclaimer::{self, FLUSH};
use super::{calls, channel, options, sink, watch};
use crate::cookie::Cookie;
use crate::grace;
use crate::reader;

static WANTED: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);
/// The last round did not reach every slot. Written by the driver.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);
/// What is sealed, by the lowest bit of the cookie for which it waits: no more than two cookies
/// wait at a time.
static SEALED: [Sealed; 2] = [const { Sealed::new() }; 2];
/// Since when the oldest was deferred that may lie in a slot that was not reached, 0 for nothing.
/// Written by the driver.
static UNREACHED_MS: AtomicU64 = AtomicU64::new(0);
/// The cookie for which [`poll`] and [`flush`] go on without waiting. Written by the driver.
static POLLED: AtomicU64 = AtomicU64::new(0);
/// Grace periods that were asked for here.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Who waits for a round looks after the driver so often.
const LOOK_NS: u64 = 100_000_000;

/// What waits for one cookie, or for an earlier one. Written by the driver.
struct Sealed {
    /// Since when the oldest of it was deferred, 0 for nothing.
    since_ms: AtomicU64,
    cookie: AtomicU64,
}

impl Sealed {
    const fn new() -> Sealed {
        Sealed { since_ms: AtomicU64::new(0), cookie: AtomicU64::new(0) }
    }

    fn note(since_ms: u64) {
        let cookie = Cookie::get().to_bits();
        let Sealed { since_ms: oldest_ms, cookie: place } = &SEALED[(cookie % 2) as usize];
        // Relaxed, all of this type: the driver's own; statistics. What is there is older.
        if oldest_ms.load(Ordering::Relaxed) == 0 {
            oldest_ms.store(since_ms, Ordering::Relaxed);
        }
        // Relaxed: as above.
        place.store(cookie, Ordering::Relaxed);
    }

    fn has_passed(&self) -> bool {
        // Relaxed: as in `note`.
        Cookie::from_bits(self.cookie.load(Ordering::Relaxed)).has_passed()
    }
}

/// Why a barrier cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BarrierError {
    /// The caller is inside of a read section, for which it would wait for ever.
    InsideReader,
    /// The caller is inside of a deferred call, for the end of which it would wait.
    InsideCall,
    /// A slot could not be reached: the system refuses what could be done at the start.
    Unreachable,
}

impl core::fmt::Display for BarrierError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            BarrierError::InsideReader => {
                "waiting for deferred calls inside a read section would deadlock"
            }
            BarrierError::InsideCall => "waiting for deferred calls inside one of them",
            BarrierError::Unreachable => "not every slot can be reached",
        })
    }
}

impl core::error::Error for BarrierError {}

/// Returns when everything that was deferred before, by whatever thread on whatever path, has been
/// freed or called. What was deferred meanwhile may be, too.
///
/// Waits for readers and for deferred calls, so sleeps; at once, by an expedited grace period.
/// Allocates nothing. Where there is no reclaimer (by option, or in a child of a fork that has
/// deferred nothing) the calls run in here.
///
/// # Errors
/// See [`BarrierError`]. The first two come with a line on standard error, and nothing was waited
/// for.
pub fn barrier() -> Result<(), BarrierError> {
    grace::refuse_inside_reader().map_err(|_| BarrierError::InsideReader)?;
    if driver::is_driving() {
        report::report(format_args!("rcu: a deferred call waits for deferred calls"));
        return Err(BarrierError::InsideCall);
    }
    // Whoever would answer may not be in this child.
    fork::settle();
    // SeqCst: what was deferred before is found by a round that finds this; and before the look
    // whether the reclaimer sleeps. Pairs with `full`. [B2]
    let number = WANTED.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
    if reclaimer::is_running() {
        reclaimer::wake();
        sleep_until(number);
    }
    if !is_done(number) {
        let driving = driver::drive();
        // The driver that this thread has waited for may have answered it.
        if !is_done(number) {
            full(&driving, true);
        }
    }
    // Relaxed: of that round or a later one.
    if IS_INCOMPLETE.load(Ordering::Relaxed) { Err(BarrierError::Unreachable) } else { Ok(()) }
}

/// Sleeps until a barrier is answered, or nobody is there to do so.
fn sleep_until(number: u32) {
    while reclaimer::is_running() {
        // Acquire pairs with the Release in `full`: what the calls did has happened. [B2]
        let done = DONE.load(Ordering::Acquire);
        if is_past(done, number) {
            return;
        }
        futex::wait_for(&DONE, done, LOOK_NS);
        watch::look();
    }
}

fn is_done(number: u32) -> bool {
    // Acquire pairs with the Release in `full`. [B2]
    is_past(DONE.load(Ordering::Acquire), number)
}

/// Is a number answered? Numbers wrap.
fn is_past(done: u32, number: u32) -> bool {
    done.wrapping_sub(number) < 1 << 31
}

/// Does somebody wait for a round?
pub(super) fn is_awaited() -> bool {
    // SeqCst: behind the look at the bell, see `reclaimer`. [B2]
    let wanted = WANTED.load(Ordering::SeqCst);
    !is_done(wanted)
}

/// Seals everything and sees to it that it is taken back soon, without waiting for that.
///
/// Never blocks on readers. Without a reclaimer [`poll`] does the rest.
pub fn flush() {
    if reclaimer::start() {
        reclaimer::ring(FLUSH);
    } else if let Some(driving) = driver::try_drive() {
        begin(&driving);
    } else {
        reclaimer::ring(FLUSH);
    }
}

/// Takes back, and calls, what is ready in the calling thread, and brings the rest on its way; true
/// if there was something.
///
/// For programs that have no reclaimer (`SHEAVES_RCU_RECLAIMERS=0`), from their main loop: after
/// the age bound it seals what is partial, and leads grace periods as far as they go without
/// waiting. Never waits for readers, though the calls may do anything. A few loads when nothing is
/// deferred. Inside of a read section or a deferred call, or beside another driver, does nothing.
pub fn poll() -> bool {
    fork::settle();
    if is_idle() || reader::is_reading() || driver::is_driving() {
        return false;
    }
    let Some(driving) = driver::try_drive() else { return false };
    let mut any = take_back(&driving);
    if !reclaimer::is_running() {
        let now = clock::coarse_ms();
        let is_old = |armed| now.saturating_sub(armed) >= options::age_ms();
        let is_due = pressure::armed_ms().is_some_and(is_old);
        if reclaimer::take_requests() & FLUSH != 0 || is_due || is_awaited() {
            begin(&driving);
        } else {
            go_on();
        }
    }
    any |= take_back(&driving);
    any
}

/// Is nothing deferred, as far as a glance tells?
fn is_idle() -> bool {
    pressure::armed_ms().is_none() && pressure::sealed().0 == 0 && !reclaimer::has_requests()
}

/// Seals everything, and starts a grace period for it.
fn begin(driving: &Driving) {
    let _ = seal(driving);
    start();
}

/// Starts a grace period for what is sealed.
fn start() {
    let cookie = Cookie::get();
    // Relaxed, both: the driver's own; statistics.
    POLLED.store(cookie.to_bits(), Ordering::Relaxed);
    ASKED.fetch_add(1, Ordering::Relaxed);
    cookie.start();
}

/// Goes on with a grace period, or begins another if something is sealed.
fn go_on() {
    // Relaxed: the driver's own.
    let polled = Cookie::from_bits(POLLED.load(Ordering::Relaxed));
    if !polled.has_passed() {
        let _ = polled.poll();
    } else if pressure::sealed().0 != 0 {
        start();
    }
}

/// Seals everything that is partial, on every path. False where a slot was not reached: after the
/// age bound it is tried again.
fn seal(_: &Driving) -> bool {
    // Relaxed, here and below: written by the driver; statistics.
    let unreached_ms = UNREACHED_MS.swap(0, Ordering::Relaxed);
    let unreached = (unreached_ms != 0).then_some(unreached_ms);
    let since = pressure::disarm().into_iter().chain(unreached).min();
    let mut is_complete = calls::seal_all();
    channel::seal_all();
    for sink in sink::sinks() {
        is_complete &= sink.seal();
    }
    if let Some(since_ms) = since {
        Sealed::note(since_ms);
    }
    if !is_complete {
        UNREACHED_MS.store(since.unwrap_or_else(clock::coarse_ms), Ordering::Relaxed);
        pressure::arm();
    }
    is_complete
}

/// Takes back what is ready on every path; true if there was something.
fn take_back(_: &Driving) -> bool {
    // Before: what passes meanwhile may not be found.
    let have_passed = SEALED.each_ref().map(Sealed::has_passed);
    let mut any = calls::run_ready();
    any |= channel::free_ready();
    for sink in sink::sinks() {
        any |= sink.reclaim();
    }
    for (sealed, _) in SEALED.iter().zip(have_passed).filter(|(_, has_passed)| *has_passed) {
        // Relaxed: as in `Sealed`.
        sealed.since_ms.store(0, Ordering::Relaxed);
    }
    refuse_open_section();
    any
}

/// Ends the process where a call has entered a read section for good.
pub(super) fn refuse_open_section() {
    if reader::is_reading() {
        report::die(format_args!("rcu: a deferred call has left a read section open"));
    }
}

/// A whole round: whatever was deferred before is taken back. Waits for readers.
pub(super) fn full(driving: &Driving, is_urgent: bool) {
    // SeqCst pairs with `barrier`. [B2]
    let wanted = WANTED.load(Ordering::SeqCst);
    let is_complete = seal(driving);
    wait(driving, is_urgent);
    take_back(driving);
    SHEAVES.refill();
    BLOCKS.refill();
    // Relaxed: published by the Release below.
    IS_INCOMPLETE.store(!is_complete, Ordering::Relaxed);
    // Release pairs with the Acquire in `sleep_until` and `is_done`. [B2]
    if DONE.swap(wanted, Ordering::Release) != wanted {
        futex::wake_all(&DONE);
    }
}

/// Takes back what is sealed, after a grace period if nothing is ready.
pub(super) fn ready(driving: &Driving) {
    if !take_back(driving) {
        wait(driving, false);
        take_back(driving);
    }
}

/// Waits for a grace period: what is sealed now has passed then. The driver is no reader.
///
/// What has passed with the one that is under way is not held up by readers that began later.
fn wait(driving: &Driving, is_urgent: bool) {
    // Relaxed: statistics.
    ASKED.fetch_add(1, Ordering::Relaxed);
    let cookie = Cookie::get();
    let before = Cookie::from_bits(cookie.to_bits() - 1);
    if !before.has_passed() {
        wait_for_one(before, is_urgent);
        take_back(driving);
    }
    wait_for_one(cookie, is_urgent);
}

fn wait_for_one(cookie: Cookie, is_urgent: bool) {
    let is_urgent = is_urgent || pressure::pressure() >= Pressure::High;
    let waited = if is_urgent { cookie.wait_expedited() } else { cookie.wait() };
    debug_assert!(waited.is_ok());
}

/// Lets the layers above give to the system what they have no use for. For the reclaimer, when it
/// has nothing else to do.
pub(super) fn give_back() {
    pressure::note_given_back();
    sink::sinks().for_each(|sink| sink.give_back());
}

/// Takes back, in a caller that has deferred too much, what is ready; no calls.
pub(super) fn help() {
    if driver::is_driving() {
        return;
    }
    let Some(_driving) = driver::try_drive() else { return };
    channel::free_ready();
    for sink in sink::sinks() {
        sink.reclaim();
    }
}

/// Grace periods that were asked for here.
pub(super) fn asked() -> u64 {
    // Relaxed: statistics.
    ASKED.load(Ordering::Relaxed)
}

/// Since when the oldest was deferred that is not taken back, in milliseconds of the clock.
pub(super) fn oldest_ms() -> Option<u64> {
    let sealed = SEALED.iter().map(|sealed| &sealed.since_ms).chain([&UNREACHED_MS]);
    // Relaxed: statistics.
    let sealed = sealed.map(|since_ms| since_ms.load(Ordering::Relaxed)).filter(|ms| *ms != 0);
    sealed.chain(pressure::armed_ms()).min()
}
