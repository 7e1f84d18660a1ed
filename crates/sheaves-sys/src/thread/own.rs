//! The library's own threads, for the time before a sandbox: each makes its last system calls when
//! its function has returned, so only the kernel can say that it has ended.

use core::sync::atomic::{AtomicI32, Ordering, fence};

use super::kernel_id::{id, is_known_to_kernel};
use crate::restart_word;

/// In place of the id of a thread that has not begun.
pub const STARTING: i32 = -1;
/// There are fewer at a time: the reclaimer, its workers, and what a request has started.
const PLACES: usize = 32;

/// Their ids, 0 for none. That of one that has ended stays until [`own`] finds it.
static OWN: [AtomicI32; PLACES] = [const { AtomicI32::new(0) }; PLACES];

/// Stores `now` in a place that has `before`.
pub(super) fn change(before: i32, now: i32) {
    // Relaxed, both: numbers; `note_starting` orders the first one.
    let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
    let _ = OWN.iter().any(|place| place.compare_exchange(before, now, order, failed).is_ok());
}

/// Before a thread is started: it is among [`own`] after `sandbox::enter`, or its creator sees that
/// the sandbox is entered.
pub(super) fn note_starting() {
    // Forgets those that have ended.
    let _ = own().count();
    change(0, STARTING);
    // SeqCst pairs with the fence in `sandbox::enter`. [N1]
    fence(Ordering::SeqCst);
}

/// The ids of the library's threads that have not ended, [`STARTING`] for one that is being
/// started. Asks the kernel.
pub fn own() -> impl Iterator<Item = i32> {
    // Relaxed: as in `change`.
    let ids = OWN.iter().map(|place| place.load(Ordering::Relaxed)).filter(|id| *id != 0);
    ids.filter(|id| {
        let is_there = *id == STARTING || is_known_to_kernel(*id);
        if !is_there {
            change(*id, 0);
        }
        is_there
    })
}

/// In the child of a fork there are none, but for the calling one if its callback has forked.
pub fn restart_in_child(is_own: bool) {
    OWN.iter().for_each(|place| restart_word!(place, 0));
    if is_own {
        change(0, id());
    }
}
