//! Rounds: seal everything, wait for one grace period for all of it, reclaim everything.
//!
//! A barrier waits for a round that begins after it. Many barriers share one: each takes a number
//! before it waits, and a round answers all numbers that were taken before it began.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `WANTED` | number of barriers so far | each barrier |
//! | `DONE` | the last barrier that is answered; both wrap | the driver, at the end of a round |

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
/// What is sealed, by the lowest bit of the cookie that it waits for: at most two cookies wait at a
/// time.
static SEALED: [Sealed; 2] = [const { Sealed::new() }; 2];
/// When the oldest object was deferred that may be in a slot that was not reached, 0 for none.
/// Written by the driver.
static UNREACHED_MS: AtomicU64 = AtomicU64::new(0);
/// The cookie that [`poll`] and [`flush`] advance without waiting. Written by the driver.
static POLLED: AtomicU64 = AtomicU64::new(0);
/// Number of grace periods that rounds have requested.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// How often a thread that waits for a round checks for a stalled callback.
const LOOK_NS: u64 = 100_000_000;

/// What waits for one cookie, or for an earlier one. Written by the driver.
struct Sealed {
    /// When the oldest of it was deferred, 0 for nothing.
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
        // Relaxed, all of this type: only the driver writes it; statistics. An existing time is
        // older.
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

/// Why a barrier was refused, or is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BarrierError {
    /// The caller is inside a read section: it would wait for itself.
    InsideReader,
    /// The caller is inside a deferred callback: it would wait for itself.
    InsideCall,
    /// A slot could not be reached: the kernel refuses what it permitted at the start.
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

/// Returns when everything that was deferred before the call, by any thread on any path, has been
/// freed or called (the kernel's `rcu_barrier`). What was deferred meanwhile may be, too.
///
/// Waits for readers and for callbacks, so it sleeps; it uses an expedited grace period. Allocates
/// nothing. Where there is no reclaimer (by option, or in a child of a fork that has deferred
/// nothing), the callbacks run in the caller.
///
/// # Errors
/// See [`BarrierError`]. The first two are also reported by a line on standard error, and are
/// returned without waiting.
pub fn barrier() -> Result<(), BarrierError> {
    grace::refuse_inside_reader().map_err(|_| BarrierError::InsideReader)?;
    if driver::is_driving() {
        report::report(format_args!("rcu: a deferred call waits for deferred calls"));
        return Err(BarrierError::InsideCall);
    }
    // The thread that would answer may not exist in this child.
    fork::settle();
    // SeqCst: a round that reads this number finds what was deferred before; and this is before the
    // check whether the reclaimer sleeps. Pairs with `full`. [B2]
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
    // Relaxed: from that round or a later one.
    if IS_INCOMPLETE.load(Ordering::Relaxed) { Err(BarrierError::Unreachable) } else { Ok(()) }
}

/// Sleeps until a barrier is answered, or no reclaimer is left to answer it.
fn sleep_until(number: u32) {
    while reclaimer::is_running() {
        // Acquire pairs with the Release in `full`: the callbacks have run. [B2]
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

/// True if a number is answered. Numbers wrap.
fn is_past(done: u32, number: u32) -> bool {
    done.wrapping_sub(number) < 1 << 31
}

/// True if a thread waits for a round.
pub(super) fn is_awaited() -> bool {
    // SeqCst: after the load of the bell, see `reclaimer`. [B2]
    let wanted = WANTED.load(Ordering::SeqCst);
    !is_done(wanted)
}

/// Seals everything, and has it reclaimed soon, without waiting for that.
///
/// Never blocks on readers. Without a reclaimer, [`poll`] does the rest.
pub fn flush() {
    if reclaimer::start() {
        reclaimer::ring(FLUSH);
    } else if let Some(driving) = driver::try_drive() {
        begin(&driving);
    } else {
        reclaimer::ring(FLUSH);
    }
}

/// Reclaims and calls what is ready, in the calling thread, and advances the grace period of the
/// rest; true if something was ready.
///
/// For programs without a reclaimer (`SHEAVES_RCU_RECLAIMERS=0`), to be called from their main
/// loop. After the age bound it seals partial buffers; it leads grace periods as far as they go
/// without waiting. It never waits for readers, but the callbacks may do anything. A few loads when
/// nothing is deferred. Does nothing inside a read section or a callback, or while another thread
/// is the driver.
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

/// True if nothing is deferred, judged by hints.
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

/// Advances a grace period, or starts another one if something is sealed.
fn go_on() {
    // Relaxed: only the driver writes it.
    let polled = Cookie::from_bits(POLLED.load(Ordering::Relaxed));
    if !polled.has_passed() {
        let _ = polled.poll();
    } else if pressure::sealed().0 != 0 {
        start();
    }
}

/// Seals everything that is partial, on every path. False where a slot was not reached: it is tried
/// again after the age bound.
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

/// Reclaims what is ready on every path; true if something was.
fn take_back(_: &Driving) -> bool {
    // Read first: what passes later may not be reclaimed below.
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

/// Aborts the process if a callback has left a read section open.
pub(super) fn refuse_open_section() {
    if reader::is_reading() {
        report::die(format_args!("rcu: a deferred call has left a read section open"));
    }
}

/// A whole round: reclaims everything that was deferred before. Waits for readers.
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

/// Reclaims what is sealed, after a grace period if nothing is ready.
pub(super) fn ready(driving: &Driving) {
    if !take_back(driving) {
        wait(driving, false);
        take_back(driving);
    }
}

/// Waits for a grace period, after which everything that is sealed now has passed. The driver is
/// not a reader.
///
/// What passes with the grace period that is under way is reclaimed before the wait for the next
/// one, whose readers may have begun later.
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

/// Lets the layers above return unused memory to the kernel. For the reclaimer, when it has nothing
/// else to do.
pub(super) fn give_back() {
    pressure::note_given_back();
    sink::sinks().for_each(|sink| sink.give_back());
}

/// Reclaims what is ready, in a thread that has deferred too much; runs no callbacks.
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

/// Number of grace periods that rounds have requested.
pub(super) fn asked() -> u64 {
    // Relaxed: statistics.
    ASKED.load(Ordering::Relaxed)
}

/// When the oldest object that is not reclaimed was deferred, in milliseconds of the clock.
pub(super) fn oldest_ms() -> Option<u64> {
    let sealed = SEALED.iter().map(|sealed| &sealed.since_ms).chain([&UNREACHED_MS]);
    // Relaxed: statistics.
    let sealed = sealed.map(|since_ms| since_ms.load(Ordering::Relaxed)).filter(|ms| *ms != 0);
    sealed.chain(pressure::armed_ms()).min()
}
