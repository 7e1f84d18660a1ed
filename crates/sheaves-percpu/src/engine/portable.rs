//! Transactions without rseq: exclusive check-out of the word by atomic exchange.
//!
//! Works on any number of *virtual* slots. A thread keeps a slot until it finds one of its words
//! checked out by somebody else, then moves on to the next. A stale slot number is harmless: what
//! protects a word is its exchange, not the number.
//!
//! State of a word (beside what `area` says):
//!
//! | value | meaning | transitions |
//! |---|---|---|
//! | [`BUSY`] | checked out by one thread | -> a value, by that thread |
//! | any other | cursor or number of the slot | -> BUSY by exchange; -> new by compare-exchange |
//!
//! A child of `fork` could inherit a word that another thread had checked out; the fork handlers
//! of this crate wait until there is none (`check_out_all`).

use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use crate::area::{self, Word};
use crate::sheaf;

/// No cursor and no count: marks a word as checked out.
pub(crate) const BUSY: usize = usize::MAX - 1;

/// The next thread's slot: threads are dealt out round-robin.
static NEXT: AtomicI32 = AtomicI32::new(0);

/// The thread's slot; dealt out at first use.
pub(crate) fn slot() -> i32 {
    let count = i32::try_from(area::slot_count()).unwrap_or(i32::MAX);
    let slot = sheaves_sys::tls::virtual_slot();
    if slot >= 0 {
        return slot % count;
    }
    // Relaxed: only spreads the threads; nothing is published.
    let slot = NEXT.fetch_add(1, Ordering::Relaxed).rem_euclid(count);
    sheaves_sys::tls::set_virtual_slot(slot);
    slot
}

fn move_on(slot: i32) {
    let count = i32::try_from(area::slot_count()).unwrap_or(i32::MAX);
    sheaves_sys::tls::set_virtual_slot((slot + 1) % count);
}

/// Checks out the word of the thread's slot, or that of the next slot that is not busy.
///
/// `None` when the slot has no block, or when all slots are busy: the caller goes on without a
/// slot rather than wait for a thread that may have lost its processor.
fn check_out(word: Word) -> Option<(&'static AtomicUsize, usize)> {
    for _ in 0..=area::slot_count() {
        let slot = slot();
        let block = area::current_block(slot);
        if block == area::bootstrap() {
            return None;
        }
        let place = area::word(block, word);
        // Acquire pairs with the Release in `check_in`: the sheaf's entries come with the word.
        let value = place.swap(BUSY, Ordering::Acquire);
        if value != BUSY {
            return Some((place, value));
        }
        move_on(slot);
    }
    None
}

#[inline]
fn check_in(place: &AtomicUsize, value: usize) {
    // Release pairs with the Acquire in `check_out`, `cmp_store` and `take`.
    place.store(value, Ordering::Release);
}

pub(crate) fn pop(word: Word) -> usize {
    let Some((place, cursor)) = check_out(word) else { return 1 };
    let entry = core::ptr::with_exposed_provenance::<usize>(cursor);
    // SAFETY: a cursor addresses an entry of a sheaf, and the check-out makes the sheaf ours.
    let object = unsafe { entry.read() };
    let left = if sheaf::is_sentinel(object) { cursor } else { cursor - 8 };
    check_in(place, left);
    object
}

/// # Safety
/// As [`super::push`].
pub(crate) unsafe fn push(word: Word, object: usize) -> bool {
    let Some((place, cursor)) = check_out(word) else { return false };
    if sheaf::is_full(cursor) {
        check_in(place, cursor);
        return false;
    }
    let entry = core::ptr::with_exposed_provenance_mut::<usize>(cursor + 8);
    // SAFETY: the sheaf is not full, so the entry above the cursor is in it, and it is free; the
    // check-out makes the sheaf ours.
    unsafe { entry.write(object) };
    check_in(place, cursor + 8);
    true
}

pub(crate) fn load(word: Word) -> usize {
    for _ in 0..=area::slot_count() {
        let slot = slot();
        // Relaxed: a hint; whoever uses it exchanges and compares.
        let value = area::word(area::current_block(slot), word).load(Ordering::Relaxed);
        if value != BUSY {
            return value;
        }
        move_on(slot);
    }
    sheaf::BOOTSTRAP.get()
}

pub(crate) fn cmp_store(word: Word, expected: usize, new: usize) -> bool {
    let block = area::current_block(slot());
    if block == area::bootstrap() {
        return false;
    }
    // AcqRel: Acquire pairs with the Release in `check_in` for the sheaf that we take, Release
    // with the Acquire of the next check-out for the one that we leave. Relaxed on failure.
    area::word(block, word)
        .compare_exchange(expected, new, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

pub(crate) fn add(word: Word, amount: usize) -> bool {
    let block = area::current_block(slot());
    if block == area::bootstrap() {
        return false;
    }
    // Relaxed: a counter; its sum is read without any promise about other memory.
    area::word(block, word).fetch_add(amount, Ordering::Relaxed);
    true
}

/// Address of the values of all words while a fork has them checked out, 0 before the first.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Checks out every word of every slot, so that no other thread has one while the process forks.
///
/// Under the slots lock. Other threads find all slots busy meanwhile and go on without one.
pub(crate) fn check_out_all(
    words: impl Iterator<Item = Word> + Clone,
    installed: impl Iterator<Item = usize>,
) {
    let bytes = area::slot_count() * area::BLOCK_BYTES;
    // Relaxed, here and below: under the slots lock.
    if KEPT.load(Ordering::Relaxed) == 0 {
        // Without memory a word that is checked out at the fork is lost in the child, no more.
        let Some(kept) = sheaves_sys::map::anywhere(bytes) else { return };
        KEPT.store(kept, Ordering::Relaxed);
    }
    for slot in installed {
        for word in words.clone() {
            let value = take(area::word(area::block(slot), word), BUSY);
            kept(slot, word).store(value, Ordering::Relaxed);
        }
    }
}

/// Checks in what [`check_out_all`] checked out; in the parent and in the child.
pub(crate) fn check_in_all(
    words: impl Iterator<Item = Word> + Clone,
    installed: impl Iterator<Item = usize>,
) {
    // Relaxed, here and below: under the slots lock.
    if KEPT.load(Ordering::Relaxed) == 0 {
        return;
    }
    for slot in installed {
        for word in words.clone() {
            let value = kept(slot, word).load(Ordering::Relaxed);
            check_in(area::word(area::block(slot), word), value);
        }
    }
}

fn kept(slot: usize, word: Word) -> &'static AtomicUsize {
    // Relaxed: under the slots lock.
    area::word(KEPT.load(Ordering::Relaxed) + slot * area::BLOCK_BYTES, word)
}

/// Takes the value of one slot's word from outside and leaves `new`; waits while it is busy.
pub(crate) fn take(place: &AtomicUsize, new: usize) -> usize {
    let mut waits = 0;
    loop {
        // Relaxed: a hint for the exchange below.
        let value = place.load(Ordering::Relaxed);
        // AcqRel: as in `cmp_store`. Relaxed on failure: we try again.
        let won = value != BUSY
            && place.compare_exchange(value, new, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if won {
            return value;
        }
        wait_for_holder(waits);
        waits += 1;
    }
}

/// How often a thread yields to the holder of a word before it sleeps.
const YIELDS: u32 = 16;
/// The first sleep; each is twice as long as the one before, up to [`NAP_DOUBLINGS`] times.
const NAP_NS: u64 = 1_000;
const NAP_DOUBLINGS: u32 = 10;

/// Lets the thread run that has a word checked out, after `waits` attempts.
///
/// A yield does not let it run where this thread has a real-time priority and the holder, on the
/// same processor, has a lower one. A sleep does.
fn wait_for_holder(waits: u32) {
    match waits.checked_sub(YIELDS) {
        None => sheaves_sys::process::give_way(),
        Some(naps) => sheaves_sys::thread::sleep_ns(NAP_NS << naps.min(NAP_DOUBLINGS)),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    use core::time::Duration;
    use std::sync::{Arc, mpsc};

    use sheaves_sys::topology::{Affinity, current_processor};

    /// Binds the calling thread to one processor and gives it a real-time priority there. False
    /// where that is not permitted.
    fn become_real_time(processor: usize, priority: i32) -> bool {
        let only = Affinity::only(processor).unwrap();
        let priority = libc::sched_param { sched_priority: priority };
        // SAFETY: the structure is valid for the call.
        let status = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
        status == 0 && only.bind()
    }

    /// A word is checked out by a thread that cannot run while the one that waits for it does.
    #[test]
    fn holder_of_lower_priority_gets_to_run() {
        const VALUE: usize = 64;
        const DEADLINE: Duration = Duration::from_secs(5);
        let word = Arc::new(AtomicUsize::new(BUSY));
        let processor = usize::try_from(current_processor()).unwrap();
        let (ready, is_ready) = mpsc::channel();
        let (taken, is_taken) = mpsc::channel();
        let (begin, may_begin) = mpsc::channel();
        let (go, may_go) = mpsc::channel();
        let holder = {
            let (word, ready) = (word.clone(), ready.clone());
            move || {
                let _ = ready.send(become_real_time(processor, 1));
                if may_go.recv().is_ok() {
                    check_in(&word, VALUE);
                }
            }
        };
        let waiter = {
            let word = word.clone();
            move || {
                let _ = ready.send(become_real_time(processor, 2));
                if may_begin.recv().is_ok() {
                    // The holder could run now, but this thread goes on.
                    let _ = go.send(());
                    let _ = taken.send(take(&word, 0));
                }
            }
        };
        let threads = [std::thread::spawn(holder), std::thread::spawn(waiter)];
        if [(); 2].map(|()| is_ready.recv_timeout(DEADLINE).unwrap()) == [true; 2] {
            begin.send(()).unwrap();
            let value = is_taken.recv_timeout(DEADLINE);
            // A waiter that does not let the holder run ends here.
            check_in(&word, VALUE);
            assert_eq!(value, Ok(VALUE), "the waiter did not let the holder run");
        } else {
            drop(begin);
            std::println!("skipped: real-time priorities are not permitted here");
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
