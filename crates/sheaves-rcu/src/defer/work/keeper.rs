//! The keeper: the reclaimer, as the thread that returns unused memory to the kernel.
//!
//! A layer above arms it when memory lies unused. From then on it ticks twice in the time of
//! `SHEAVES_DECAY_MS`, see [`super::layers::LayerAbove::tick`], until a tick finds nothing unused.
//! Between two ticks it has the layers above compact what is in use, as long as that has an effect.
//!
//! It makes no process multi-threaded: while there is one thread, nothing is armed, and the layers
//! return memory when something is freed. The child of a fork has one thread, although libc goes on
//! to say that there were several, until another one arms the keeper.
//!
//! | `ARMED` | meaning | transitions |
//! |---|---|---|
//! | false | nothing is unused, or the process has one thread | -> true, by [`arm`] |
//! | true | the keeper will tick | -> false, by the keeper before it ticks |
//!
//! After a tick that has left something, the keeper arms itself again.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use sheaves_sys::membarrier::Reach;
use sheaves_sys::options::{DECAY_MS, NEVER};
use sheaves_sys::{clock, fork, probe, restart_word, tls};

use super::layers;

static ARMED: AtomicBool = AtomicBool::new(false);
/// The keeper ticks at this moment. Written by it.
static IS_TICKING: AtomicBool = AtomicBool::new(false);
/// When the keeper ticks next, in ms of the clock. Written by the thread that arms it.
static DUE_MS: AtomicU64 = AtomicU64::new(0);
/// When it compacts next, in ms of the clock; [`NEVER`] if that is not necessary. Written by it.
static COMPACTS_MS: AtomicU64 = AtomicU64::new(NEVER);
/// The thread pointer of the thread that a fork has left alone in this process; 0 if there is none,
/// or another one was seen since. Only a policy: nothing relies on its being alone.
static ALONE: AtomicUsize = AtomicUsize::new(0);
/// Number of ticks, and the time that they took. Written by the thread that ticks.
static TICKS: AtomicU64 = AtomicU64::new(0);
static BUSY_NS: AtomicU64 = AtomicU64::new(0);

const PERIOD_MS_MIN: u64 = 10;
/// The time between two calls of [`layers::LayerAbove::compact`] while they have an effect.
const COMPACT_EVERY_MS: u64 = 20;

/// How long memory lies unused before it returns to the kernel, in milliseconds; `None` for ever.
pub fn decay_ms() -> Option<u64> {
    Some(DECAY_MS.get()).filter(|decay_ms| *decay_ms != NEVER)
}

/// The time between two ticks; `None` where there are none.
pub fn period_ms() -> Option<u64> {
    decay_ms().map(|decay| (decay / 2).max(PERIOD_MS_MIN))
}

/// True if the keeper will tick. As a hint.
#[inline]
pub fn is_armed() -> bool {
    // Relaxed: a hint.
    ARMED.load(Ordering::Relaxed)
}

/// True if the keeper will tick, and find then what the caller has just left unused.
#[inline]
pub fn is_armed_fenced() -> bool {
    // SeqCst pairs with the fence in `tick`. [B3]
    fence(Ordering::SeqCst);
    is_armed()
}

/// True while the keeper will tick, or ticks: then the layers need not return memory themselves.
#[inline]
pub fn is_active() -> bool {
    // Relaxed: a hint.
    is_armed() || IS_TICKING.load(Ordering::Relaxed)
}

/// True if the keeper should have ticked a period ago: it runs a long callback, or waits for
/// readers. Then the layers return memory themselves. Reads the clock.
pub fn is_overdue() -> bool {
    // Relaxed: a hint.
    let due_ms = DUE_MS.load(Ordering::Relaxed);
    period_ms().is_some_and(|period_ms| due_ms + period_ms < clock::coarse_ms())
}

/// True if the caller is the only thread, as far as is known.
fn is_alone() -> bool {
    // Relaxed, both: a thread that finds its own pointer has stored it itself, and a policy.
    let alone = ALONE.load(Ordering::Relaxed);
    if alone != 0 && alone != tls::thread_pointer() {
        ALONE.store(0, Ordering::Relaxed);
    }
    alone == tls::thread_pointer() || tls::is_single_threaded()
}

/// Arms the keeper if it may have a thread: if `has_thread`, or the process has several. False if
/// another thread has armed it.
pub(crate) fn arm(has_thread: bool) -> bool {
    if !has_thread && is_alone() {
        return false;
    }
    let Some(period_ms) = period_ms() else { return false };
    // Relaxed: published by the exchange below.
    DUE_MS.store(clock::coarse_ms() + period_ms, Ordering::Relaxed);
    // SeqCst: before the check whether the reclaimer sleeps, see `bell`. [B1]
    !ARMED.swap(true, Ordering::SeqCst)
}

/// There is no thread for it.
pub(crate) fn disarm() {
    // Relaxed: a hint.
    ARMED.store(false, Ordering::Relaxed);
}

/// Time until the reclaimer has to tick or compact; `None` when nothing is armed.
pub(crate) fn left_ms() -> Option<u64> {
    // SeqCst: after the load of the bell, see `bell`. [B1]
    let is_armed = ARMED.load(Ordering::SeqCst);
    // Relaxed, both: the first was stored before the exchange that was read, the second is our own.
    let due_ms = DUE_MS.load(Ordering::Relaxed).min(COMPACTS_MS.load(Ordering::Relaxed));
    is_armed.then(|| due_ms.saturating_sub(clock::coarse_ms()))
}

/// Ticks and compacts, if it is time; true if it was. For the reclaimer.
pub(crate) fn tick_if_due() -> bool {
    if left_ms() != Some(0) {
        return false;
    }
    // Relaxed, here and below: a hint, or the reclaimer's own.
    IS_TICKING.store(true, Ordering::Relaxed);
    if DUE_MS.load(Ordering::Relaxed) <= clock::coarse_ms() {
        // SeqCst: before the tick, so that what it does not find is armed again. [B1]
        ARMED.store(false, Ordering::SeqCst);
        // SeqCst pairs with the fence in `is_armed_fenced`: a thread that has left memory unused
        // finds the keeper disarmed, or the tick below finds that memory. [B3]
        fence(Ordering::SeqCst);
        if tick(Reach::Interrupts) {
            arm(true);
        }
    }
    let has_effect = layers::layers().fold(false, |has_effect, layer| layer.compact() | has_effect);
    let next_ms = if has_effect { clock::coarse_ms() + COMPACT_EVERY_MS } else { NEVER };
    COMPACTS_MS.store(next_ms, Ordering::Relaxed);
    IS_TICKING.store(false, Ordering::Relaxed);
    true
}

/// One tick of a thread that frees while there is no keeper. Takes locks of all layers: not under a
/// lock.
pub fn tick_here() {
    tick(Reach::Quiet);
}

fn tick(reach: Reach) -> bool {
    let begin_ns = clock::fine_ns();
    let is_left = layers::layers().fold(false, |is_left, layer| layer.tick(reach) | is_left);
    // Relaxed, both: statistics.
    TICKS.fetch_add(1, Ordering::Relaxed);
    BUSY_NS.fetch_add(clock::fine_ns().saturating_sub(begin_ns), Ordering::Relaxed);
    probe::keeper_look(is_left.into());
    is_left
}

/// Ticks so far, and the microseconds that they took.
pub(crate) fn ticks() -> (u64, u64) {
    // Relaxed, both: statistics.
    (TICKS.load(Ordering::Relaxed), BUSY_NS.load(Ordering::Relaxed) / 1000)
}

/// In the child of a fork, where the reclaimer exists or not.
pub(crate) fn restart_in_child() {
    restart_word!(ARMED, false);
    restart_word!(IS_TICKING, false);
    restart_word!(DUE_MS, 0);
    restart_word!(COMPACTS_MS, NEVER);
    if !fork::is_alone() {
        restart_word!(ALONE, tls::thread_pointer());
    }
}
