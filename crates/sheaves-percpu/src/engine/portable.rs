//! Transactions without rseq: a thread checks the word out by atomic exchange.
//!
//! This works with any number of *virtual* slots. A thread keeps a slot until another thread has
//! one of its words checked out, then moves to the next slot. A stale slot number is harmless: the
//! exchange protects a word, not the number.
//!
//! States of a word, in addition to those in `table`. A value is a cursor, so its highest bits are
//! free:
//!
//! | value | meaning | transitions |
//! |---|---|---|
//! | a cursor | the slot's sheaf | -> [`BUSY`] by a thread; -> another by compare-exchange |
//! | a cursor with [`BUSY`] | checked out by the thread in the bits below | -> a cursor, by it |
//! | a cursor with [`FROZEN`] | a fork is in progress | -> without, by the forking thread |
//!
//! A checked-out word still contains its cursor, which describes the sheaf as it was before. So a
//! fork's child can repair the words that other threads had checked out: it clears the bits. An
//! object that such a thread was about to push is lost with the thread; one that it was about to
//! pop is still in the sheaf. But an object that was popped just before could be in the child
//! twice, in the sheaf and in use, because the kernel copies one page after the other. So a fork
//! first freezes all words.

use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use sheaves_sys::clock;

use crate::sheaf::{Cursor, object_in};
use crate::word::Word;
use crate::{rows, table};

/// Flag: checked out by one thread.
const BUSY: usize = 1 << 63;
/// Flag: a fork is in progress.
const FROZEN: usize = 1 << 62;
/// Shift of the thread's bits in a busy word, above all addresses.
const THREAD_SHIFT: u32 = 48;
const TAGS: usize = usize::MAX << THREAD_SHIFT;

/// Longest wait of a fork for checked-out words. A thread that keeps one longer is not running.
const FREEZE_NS: u64 = 100_000_000;

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

/// The thread's bits, without [`BUSY`] and [`FROZEN`].
///
/// Stacks are a power of two apart as a rule, 8 MiB by default with glibc, and so are thread
/// pointers. Those that differ from bit 12 on, or from bit 23 on, have different tags.
fn tag_of(thread_pointer: usize) -> usize {
    (thread_pointer >> 12 ^ thread_pointer >> 23) << THREAD_SHIFT & !(BUSY | FROZEN)
}

/// The cursor in a word, checked out or not.
pub(crate) fn cursor_of(value: usize) -> Cursor {
    Cursor::of_word(value & !TAGS)
}

/// Checks out the word of the thread's slot, or of the next slot where it is not busy.
///
/// `None` when the slot has no block, or when the word is busy in all slots. The caller then
/// continues without a slot: the thread that has the word checked out may have been preempted.
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
    // Release pairs with the Acquire in `check_out`, `cmp_store` and `take`.
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

pub(crate) fn cmp_store(word: Word, expected: Cursor, new: Cursor) -> bool {
    let block = table::current_block(slot());
    if block == table::bootstrap() {
        return false;
    }
    // AcqRel: Acquire pairs with the Release in `check_in`, for the sheaf that is taken; Release
    // pairs with the Acquire of the next check-out, for the one that is left. Relaxed on failure.
    word.in_block(block)
        .compare_exchange(expected.bits(), new.bits(), Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

/// The time at which a fork gives up its wait for words that are checked out.
pub(crate) fn freeze_end_ns() -> u64 {
    clock::fine_ns().saturating_add(FREEZE_NS)
}

/// Sets [`FROZEN`] in a word, so that no other thread changes it during a fork.
///
/// Under the slots lock. Other threads find all slots busy meanwhile and continue without one. A
/// word may have been checked out by the calling thread itself, before a signal whose handler
/// forks; it stays checked out.
pub(crate) fn freeze_word(word: &AtomicUsize, end_ns: u64) {
    for waits in 0.. {
        // Relaxed: the exchange compares it.
        let value = word.load(Ordering::Relaxed);
        let is_others = value & BUSY != 0 && value & TAGS & !FROZEN != busy();
        if is_others && clock::fine_ns() < end_ns {
            wait_for_holder(waits);
            continue;
        }
        // Acquire pairs with the Release in `check_in`. Relaxed on failure: the loop reads again.
        let (frozen, failure) = (value | FROZEN, Ordering::Relaxed);
        if word.compare_exchange(value, frozen, Ordering::Acquire, failure).is_ok() {
            return;
        }
    }
}

/// Undoes [`freeze_word`], in the parent or in the child, where no other thread has words checked
/// out.
pub(crate) fn thaw_word(word: &AtomicUsize, is_child: bool) {
    // Release pairs with the Acquire in `check_out`: changes of the sheaf since the freeze are
    // visible with the word.
    word.fetch_and(if is_child { !TAGS } else { !FROZEN }, Ordering::Release);
}

/// Takes the cursor out of one slot's word from outside and leaves `new`; waits while the word is
/// busy.
///
/// Under the slots lock: only the forking thread can find a frozen word.
pub(crate) fn take(word: &AtomicUsize, new: Cursor) -> Cursor {
    let mut waits = 0;
    loop {
        // Relaxed: a hint for the exchange below.
        let value = word.load(Ordering::Relaxed);
        let new = new.bits() | value & FROZEN;
        // AcqRel: as in `cmp_store`. Relaxed on failure: the loop tries again.
        let won = value & BUSY == 0
            && word.compare_exchange(value, new, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if won {
            return cursor_of(value);
        }
        wait_for_holder(waits);
        waits += 1;
    }
}

/// Rounds in which a thread spins for the thread that has a word checked out before it sleeps.
const SPINS: u32 = 64;
/// The first sleep; each is twice the previous one, up to [`NAP_DOUBLINGS`] times.
const NAP_NS: u64 = 1_000;
const NAP_DOUBLINGS: u32 = 10;

/// Waits, after `waits` attempts, for the thread that has a word checked out.
///
/// A sleep lets that thread run also if it is on the same CPU and the caller has a higher real-time
/// priority.
fn wait_for_holder(waits: u32) {
    match waits.checked_sub(SPINS) {
        None => core::hint::spin_loop(),
        Some(naps) => sheaves_sys::thread::sleep_ns(NAP_NS << naps.min(NAP_DOUBLINGS)),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/engine_portable.rs"]
mod tests;
