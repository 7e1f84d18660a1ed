//! What threads that defer, and the layers above, ask of the reclaimer: each starts or wakes it.

use super::bell::{self, READY, SWEEP, UNTIL_AGE, UNTIL_DEFERRED};
use super::reclaimer::{self, is_running, start_or_report, try_start};
use super::{keeper, watch};
use crate::defer::store::pressure::{self, Pressure};
use crate::defer::store::shard::Batch;
use crate::grace::cookie::start_quietly;

/// Something was deferred into an empty sheaf: arms the bound on its age.
///
/// Two loads if it is armed and the reclaimer runs, which the thread that armed it may have failed
/// to start. Otherwise starts the reclaimer, or wakes it from a sleep without timeout. Starting it
/// makes libc allocate, so do not call this where `malloc` must not be called.
#[inline]
pub fn arm_age() {
    if !pressure::is_armed() || !is_running() {
        arm_age_slow();
    }
}

#[cold]
fn arm_age_slow() {
    let is_new = pressure::arm();
    start_or_report();
    if is_new {
        bell::wake_from(UNTIL_DEFERRED);
    }
}

/// Memory lies unused: arms the keeper. One load if it is armed.
///
/// If `may_start`, starts the reclaimer if there is none and the process has more than one thread.
/// That takes locks of libc, under which it may free memory, but not allocate: so after allocations
/// only. Not under a lock of the library.
#[inline]
pub fn arm_keeper(may_start: bool) {
    if !keeper::is_armed() && (may_start || is_running()) {
        arm_keeper_slow(may_start);
    }
}

#[cold]
fn arm_keeper_slow(may_start: bool) {
    if keeper::arm(is_running()) && !wake_reclaimer(may_start) {
        keeper::disarm();
    }
}

/// Leaves to the reclaimer what a tool or another part of the library requests. As [`arm_keeper`],
/// and also with one thread.
///
/// True if the caller has nothing to do: the reclaimer is woken or started, or a later caller with
/// `may_start` starts it. False where there can be none.
pub fn leave_to_reclaimer(may_start: bool) -> bool {
    wake_reclaimer(may_start) || (!may_start && reclaimer::may_start())
}

/// Wakes the reclaimer, or starts it if `may_start`. False where there is none.
pub(crate) fn wake_reclaimer(may_start: bool) -> bool {
    let is_there = is_running() || (may_start && try_start());
    if is_there {
        bell::wake_from(UNTIL_AGE);
    }
    is_there
}

/// Requests that the reclaimer sweeps what only it may reach. False if there is none. Not under a
/// lock. See [`super::layers::LayerAbove::sweep`].
pub fn request_sweep() -> bool {
    let is_there = is_running();
    if is_there {
        bell::request(SWEEP);
    }
    is_there
}

/// A grace period lacks a membarrier, see [`crate::grace::cookie::start_quietly`]: has the
/// reclaimer call it, if there is one. Also under locks.
pub fn request_membarrier() {
    if is_running() {
        bell::request(READY);
    }
}

/// Follows [`pressure::note_sealed`]: wakes or starts the reclaimer if the pressure is high.
/// Returns the pressure. Not under a lock: libc allocates when it starts a thread.
pub fn wake_if_pressed() -> Pressure {
    let pressure = pressure::pressure();
    if pressure >= Pressure::High {
        request_and_start(READY);
    }
    pressure
}

/// Follows the sealing of a batch, without locks: starts its grace period if it is time.
pub(crate) fn start_batch(Batch { cookie, is_due }: Batch) -> Pressure {
    let pressure = wake_if_pressed();
    let is_high = pressure >= Pressure::High;
    let lacks_membarrier =
        (is_high || is_due || pressure == Pressure::Soft) && start_quietly(cookie, is_high);
    if is_due || lacks_membarrier {
        request_and_start(READY);
    }
    watch::report_stalled();
    pressure
}

/// Gives the reclaimer a request, and starts it if it does not exist.
pub(crate) fn request_and_start(request: u32) {
    bell::request(request);
    start_or_report();
}
