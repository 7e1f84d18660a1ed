//! The current slot's row, for transactions and accesses that do not need a slot.
//!
//! When the current slot has no block and cannot get one at once, the shared row is used.

use crate::engine::current_row;
use crate::engine::rows::Outcome;
use crate::rows;
use crate::slots;

/// How often a slow path starts over before it goes on without its slot: the thread may get no
/// block, and other threads may change the slot's words.
pub(crate) const ATTEMPTS: u32 = 64;

/// The shared row, which is for threads without a slot. It is open since the first allocation.
pub(crate) fn shared_row() -> usize {
    rows::touch_shared();
    rows::row(rows::shared())
}

/// Repeats an attempt until the thread has a slot with a block; `None` when it gets none.
#[cold]
fn until_block<R>(attempt: impl Fn() -> Option<R>) -> Option<R> {
    for _ in 0..ATTEMPTS {
        let found = attempt();
        if found.is_some() {
            return found;
        }
        if !slots::attach_at_once() {
            // Registration is refused, or a drain has detached the blocks for a moment.
            core::hint::spin_loop();
        }
    }
    None
}

/// Repeats a transaction until it is done or declines; `None` when there is no block for it.
pub(crate) fn retry(transaction: impl Fn() -> Outcome) -> Option<Outcome> {
    until_block(|| Some(transaction()).filter(|outcome| *outcome != Outcome::NoBlock))
}

/// The current slot's row, or the shared row for a thread without a slot: a hint.
#[inline]
pub(crate) fn row_or_shared() -> usize {
    current_row().unwrap_or_else(row_or_shared_slow)
}

#[cold]
#[inline(never)]
fn row_or_shared_slow() -> usize {
    until_block(current_row).unwrap_or_else(shared_row)
}

/// Makes a slot's row readable and writable, even if no thread has used the slot. False when memory
/// is out.
pub(crate) fn open_row(slot: usize) -> bool {
    if slot == rows::shared() {
        rows::touch_shared();
    }
    rows::is_open(slot) || {
        let _slots = slots::SLOTS.lock();
        rows::open(slot)
    }
}
