//! Transactions without rseq: a thread checks the word out by atomic exchange.
//!
//! This works with any number of *virtual* slots. A thread keeps a slot until another thread has
//! one of its words checked out, then moves to the next slot. A stale slot number is harmless: the
//! exchange protects a word, not the number.
//!
//! | value | meaning | transitions |
//! |---|---|---|
//! | a cursor | the slot's sheaf | -> [`BUSY`] by a thread; -> another by compare-exchange |
//! | a cursor with [`BUSY`] | checked out by the thread in the bits below | -> a cursor, by it |
//!
//! A checked-out word still contains its cursor, which describes the sheaf as it was before. So a
//! fork's child repairs the words that other threads had checked out: it clears the bits. An object
//! that such a thread was about to push is lost with it; one that it was about to pop is still in
//! the sheaf.

use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use crate::sheaf::{Cursor, object_in};
use crate::word::Word;
use crate::{rows, table};

/// Flag: checked out by one thread.
const BUSY: usize = 1 << 63;
/// Shift of the thread's bits in a busy word, above all addresses.
const THREAD_SHIFT: u32 = 48;
const TAGS: usize = usize::MAX << THREAD_SHIFT;

/// The next thread's slot: slots are assigned round-robin.
static NEXT: AtomicI32 = AtomicI32::new(0);

/// The thread's slot; assigned at first use.
pub(crate) fn slot() -> i32 {
    let count = rows::slot_count() as i32;
    let slot = sheaves_sys::tls::virtual_slot();
    if slot >= 0 {
        return i32::from(slot) % count;
    }
    // Relaxed: only spreads the threads; nothing is published.
    let slot = NEXT.fetch_add(1, Ordering::Relaxed).rem_euclid(count);
    sheaves_sys::tls::set_virtual_slot(slot as i16);
    slot
}

fn move_on(slot: i32) {
    sheaves_sys::tls::set_virtual_slot(((slot + 1) % rows::slot_count() as i32) as i16);
}

/// The bits of a word that the calling thread has checked out.
fn busy() -> usize {
    BUSY | tag_of(sheaves_sys::tls::thread_pointer())
}

/// The thread's bits, without [`BUSY`].
///
/// Stacks are a power of two apart as a rule, 8 MiB by default with glibc, and so are thread
/// pointers. Those that differ from bit 12 on, or from bit 23 on, have different tags.
fn tag_of(thread_pointer: usize) -> usize {
    (thread_pointer >> 12 ^ thread_pointer >> 23) << THREAD_SHIFT & !BUSY
}

/// The cursor in a word, checked out or not.
pub(crate) fn cursor_of(value: usize) -> Cursor {
    Cursor::of_word(value & !TAGS)
}

/// Checks out the word of the thread's slot, or of the next slot where it is not busy. `None` when
/// the slot has no block, or when the word is busy in all slots.
fn check_out(word: Word) -> Option<(&'static AtomicUsize, Cursor)> {
    for _ in 0..=rows::slot_count() {
        let slot = slot();
        let block = table::current_block(slot);
        if block == table::bootstrap() {
            return None;
        }
        let word = word.in_block(block);
        // Relaxed: the exchange compares it.
        let value = word.load(Ordering::Relaxed);
        // Acquire pairs with the Release in `check_in`: the sheaf's entries are visible with the
        // word. Relaxed on failure: the next slot is tried.
        let is_ours = value & TAGS == 0
            && word
                .compare_exchange(value, value | busy(), Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if is_ours {
            return Some((word, Cursor::of_word(value)));
        }
        move_on(slot);
    }
    None
}

#[inline]
fn check_in(word: &AtomicUsize, cursor: Cursor) {
    // Release pairs with the Acquire in `check_out`, `take` and `rows_slow`.
    word.store(cursor.bits(), Ordering::Release);
}

pub(crate) fn pop(word: Word) -> Option<usize> {
    let (word, cursor) = check_out(word)?;
    // SAFETY: by the check-out this thread owns the sheaf.
    let object = object_in(unsafe { cursor.last() });
    check_in(word, if object.is_some() { cursor.down(1) } else { cursor });
    object
}

/// # Safety
/// As [`super::push`].
pub(crate) unsafe fn push(word: Word, object: usize) -> bool {
    let Some((word, cursor)) = check_out(word) else { return false };
    let is_full = cursor.is_full();
    // SAFETY: by the check-out this thread owns the sheaf.
    check_in(word, if is_full { cursor } else { unsafe { cursor.push(object) } });
    !is_full
}

pub(crate) fn load(word: Word) -> Cursor {
    for _ in 0..=rows::slot_count() {
        let slot = slot();
        // Relaxed: a hint; a caller that acts on it exchanges and compares.
        let value = word.in_block(table::current_block(slot)).load(Ordering::Relaxed);
        if value & TAGS == 0 {
            return Cursor::of_word(value);
        }
        move_on(slot);
    }
    Cursor::BOOTSTRAP
}

/// In the child of a fork: no other thread has a word checked out any more. True if the calling one
/// has, or one with the same tag had.
pub(crate) fn check_in_of_others(word: &AtomicUsize) -> bool {
    // Relaxed: the child has one thread.
    word.fetch_and(!TAGS, Ordering::Relaxed) & TAGS == busy()
}

/// Takes the cursor out of one slot's word from outside and leaves `new`; waits while the word is
/// busy. Under the slots lock.
pub(crate) fn take(word: &AtomicUsize, new: Cursor) -> Cursor {
    let mut waits = 0;
    loop {
        // Relaxed: a hint for the exchange below.
        let value = word.load(Ordering::Relaxed);
        // AcqRel: Acquire pairs with the Release in `check_in`, for the sheaf that is taken,
        // Release with the Acquire of the next check-out. Relaxed on failure: the loop tries again.
        let won = value & BUSY == 0
            && word
                .compare_exchange(value, new.bits(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if won {
            return cursor_of(value);
        }
        wait_for_holder(waits);
        waits += 1;
    }
}

const SPINS: u32 = 64;
/// The first sleep; each is twice the previous one, up to [`NAP_DOUBLINGS`] times.
const NAP_NS: u64 = 1_000;
const NAP_DOUBLINGS: u32 = 10;

/// Waits, after `waits` attempts, for the thread that has a word checked out. A sleep lets it run
/// even if it is on the same CPU and the caller has a higher real-time priority.
fn wait_for_holder(waits: u32) {
    match waits.checked_sub(SPINS) {
        None => core::hint::spin_loop(),
        Some(naps) => sheaves_sys::thread::sleep_ns(NAP_NS << naps.min(NAP_DOUBLINGS)),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/engine_portable.rs"]
mod tests;
