//! How urgent grace periods are: expedited ones start at once, normal ones are batched.
//!
//! If the last grace period interrupted the CPUs, and no thread waits for the next one, requests
//! are batched for [`INTERVAL_NS`]. While a program starts all are expedited: from the first use
//! until [`end_startup`], for at least one second and at most ten. `SHEAVES_RCU` overrides every
//! request.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use sheaves_sys::{clock, options};

use crate::reader::fences;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    Normal,
    Expedited,
}

/// Shortest and longest time during which the start of a program is expedited, in ms.
const STARTUP_MS_MIN: u64 = 1_000;
const STARTUP_MS_MAX: u64 = 10_000;
/// After a membarrier, a grace period that no thread waits for begins this much later.
const INTERVAL_NS: u64 = 50_000;

static GUARDS: AtomicU32 = AtomicU32::new(0);

/// When the program's start began, in ms of the clock: 0 before the first request, and
/// [`STARTUP_OVER`]. And whether [`end_startup`] was called.
static STARTUP: AtomicU64 = AtomicU64::new(0);
const STARTUP_OVER: u64 = u64::MAX;
static HAS_STARTED: AtomicBool = AtomicBool::new(false);

/// While this exists, all grace periods of the process are expedited. Guards nest and may be sent.
#[derive(Debug)]
#[must_use = "grace periods are expedited as long as the guard exists"]
pub struct Expedite(());

/// Expedites all grace periods of the process until the guard is dropped: for phases in which
/// latency matters more than interrupts. Async-signal-safe.
pub fn expedite() -> Expedite {
    // Relaxed: a hint; nothing is published through it.
    GUARDS.fetch_add(1, Ordering::Relaxed);
    Expedite(())
}

/// Drops a guard that was forgotten, for bindings of other languages.
pub fn end_expedite() {
    // Relaxed: as in `expedite`.
    GUARDS.fetch_sub(1, Ordering::Relaxed);
}

impl Drop for Expedite {
    fn drop(&mut self) {
        end_expedite();
    }
}

/// Tells that the program has started: grace periods are expedited no longer for that reason, or
/// from one second after the first use on. Async-signal-safe.
pub fn end_startup() {
    // Relaxed: a hint; nothing is published through it.
    HAS_STARTED.store(true, Ordering::Relaxed);
}

fn is_starting() -> bool {
    // Relaxed, all: hints; nothing is published through them.
    let startup = STARTUP.load(Ordering::Relaxed);
    if startup == STARTUP_OVER {
        return false;
    }
    let now = clock::coarse_ms();
    if startup == 0 {
        let _ = STARTUP.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        return true;
    }
    let has_started = HAS_STARTED.load(Ordering::Relaxed);
    let limit = if has_started { STARTUP_MS_MIN } else { STARTUP_MS_MAX };
    let is_over = now.saturating_sub(startup) >= limit;
    if is_over {
        STARTUP.store(STARTUP_OVER, Ordering::Relaxed);
    }
    !is_over
}

/// True if a request is served at once. Async-signal-safe.
pub(crate) fn is_urgent(urgency: Urgency) -> bool {
    hurries(urgency) || (options::RCU.asked().is_none() && is_starting())
}

/// [`is_urgent`] without the startup rule: for grace periods that no thread waits for.
pub(crate) fn hurries(urgency: Urgency) -> bool {
    match options::RCU.word() {
        "normal" => false,
        "expedited" => true,
        // Relaxed: a hint.
        _ => urgency == Urgency::Expedited || GUARDS.load(Ordering::Relaxed) != 0,
    }
}

/// Grace periods up to this number are expedited, also when another thread polls for them.
static WANTED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn want_at_once(number: u64) {
    // Relaxed: a hint; nothing is published through it.
    WANTED.fetch_max(number, Ordering::Relaxed);
}

pub(crate) fn wanted(number: u64) -> Urgency {
    // Relaxed: a hint.
    let is_wanted = WANTED.load(Ordering::Relaxed) >= number;
    if is_wanted { Urgency::Expedited } else { Urgency::Normal }
}

/// True if a grace period that no thread waits for may begin, when the last one began at `last_ns`.
/// One that uses no membarrier always may.
pub(crate) fn may_begin(urgency: Urgency, last_ns: u64) -> bool {
    is_urgent(urgency)
        || !fences::has_interrupted()
        || clock::fine_ns().saturating_sub(last_ns) >= INTERVAL_NS
}
