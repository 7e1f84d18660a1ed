//! The states and records of the places, in their mapping. [`super::layout`] says what they mean.
//!
//! A thread that has made a place's state `Changing` owns the record. Others may read at any time,
//! also in a signal handler: they compare the state before and after.

use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use sheaves_sys::{clock, map, thread};

use super::layout::{
    ERROR, FRAMES_MAX, FREE, Geometry, MAGIC, Misuse, PLACES, POOL, RECORD_WORDS, RECORDS_AT,
    Record, STATES_AT, State, WORDS,
};

/// Bytes of a place, on machines with smaller pages; no larger block is a trap.
const BODY_BYTES: usize = 32 << 10;

/// The pool and its size, 0 while there is none.
static BASE: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// The words, 0 while there are none.
static TABLE: AtomicUsize = AtomicUsize::new(0);
/// Number of the last change of a state.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// True for addresses of the pool. False in a process without one, at the price of two loads.
#[inline]
#[must_use]
pub fn contains(address: usize) -> bool {
    // Relaxed, both: a thread that has an address of the pool got it by an ordered path.
    address.wrapping_sub(BASE.load(Ordering::Relaxed)) < BYTES.load(Ordering::Relaxed)
}

/// The addresses of the pool, none in a process without one.
pub(super) fn range() -> core::ops::Range<usize> {
    // Relaxed, both: as in `contains`.
    let base = BASE.load(Ordering::Relaxed);
    base..base + BYTES.load(Ordering::Relaxed)
}

/// Maps the pool and the table. False when memory is out. One thread at a time.
pub(super) fn make() -> bool {
    // Relaxed, here and below: the caller serialises this; see `contains` for others.
    if TABLE.load(Ordering::Relaxed) != 0 {
        return true;
    }
    let page = map::page_bytes();
    let mut geometry = Geometry { base: 0, page, body: BODY_BYTES.next_multiple_of(page) };
    let Some(base) = map::reserve(geometry.bytes()) else { return false };
    geometry.base = base;
    let Some(table) = map::anywhere(WORDS * 8) else {
        // SAFETY: mapped above, and not known to any other code.
        unsafe { map::unmap(base, geometry.bytes()) };
        return false;
    };
    TABLE.store(table, Ordering::Relaxed);
    let head = [MAGIC[0], MAGIC[1], base as u64, geometry.page as u64, geometry.body as u64];
    for (index, number) in head.into_iter().enumerate() {
        word(index).store(number, Ordering::Relaxed);
    }
    BASE.store(base, Ordering::Relaxed);
    // Release pairs with the Acquire in `geometry`. [G1]
    BYTES.store(geometry.bytes(), Ordering::Release);
    true
}

/// A word of the table, which exists.
fn word(index: usize) -> &'static AtomicU64 {
    debug_assert!(index < WORDS);
    // Relaxed: written before there are addresses of the pool.
    let address = TABLE.load(Ordering::Relaxed) + index * 8;
    // SAFETY: inside the mapping, which stays; all access is atomic.
    unsafe { &*with_exposed_provenance::<AtomicU64>(address) }
}

/// Where the pool is; `None` while there is none. Async-signal-safe.
pub(super) fn geometry() -> Option<Geometry> {
    // Acquire pairs with the Release in `make`. [G1]
    if BYTES.load(Ordering::Acquire) == 0 {
        return None;
    }
    // Relaxed, all: they do not change.
    let number = |index: usize| word(POOL + index).load(Ordering::Relaxed) as usize;
    Some(Geometry { base: number(0), page: number(1), body: number(2) })
}

fn state_word(place: usize) -> &'static AtomicU64 {
    word(STATES_AT + place)
}

/// The state of a place, and the number of its last change.
pub(super) fn state(place: usize) -> u64 {
    // Acquire pairs with the Release in `change`: the record is written. [G2]
    state_word(place).load(Ordering::Acquire)
}

/// Changes the state of a place from `before`. `None` if another thread has changed it.
pub(super) fn change(place: usize, before: u64, state: State) -> Option<u64> {
    // Relaxed: a number that no other change has; the state is published below.
    let number = CHANGES.fetch_add(1, Ordering::Relaxed) + 1;
    let after = number << 8 | state as u64;
    // AcqRel pairs with itself and with the Acquire in `state`: what the thread before has written
    // to the record and the pages, and what this one has. Relaxed on failure: nothing is read. [G2]
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let is_changed = state_word(place).compare_exchange(before, after, success, failure).is_ok();
    // SeqCst, so that the record is written after a reader can see that it changes. It pairs with
    // the fence in `record`. [G3]
    fence(Ordering::SeqCst);
    is_changed.then_some(after)
}

/// Gives a place back that the caller is changing, as it was.
pub(super) fn undo(place: usize, before: u64) {
    // Release pairs with the Acquire in `state`. [G2]
    state_word(place).store(before, Ordering::Release);
}

/// The place that has been free for the longest time, for the caller to change, and its state
/// before. `None` when all places are in use, or were freed less than `rest_ms` ago.
pub(super) fn take_oldest(rest_ms: u64) -> Option<(usize, u64)> {
    for _ in 0..PLACES {
        let states = (0..PLACES).map(|place| (state(place), place));
        let is_free = |word: u64| matches!(State::of(word), State::Unused | State::Freed);
        // The number in the upper bits decides. Places without a block have 0.
        let (before, place) = states.filter(|(word, _)| is_free(*word)).min()?;
        let freed_ms = field(place, FREE);
        if before != 0 && clock::coarse_ms().saturating_sub(freed_ms) < rest_ms {
            return None;
        }
        if change(place, before, State::Changing).is_some() {
            return Some((place, before));
        }
    }
    None
}

/// A word of a place's record.
pub(super) fn field(place: usize, index: usize) -> u64 {
    // Relaxed, here and below: ordered by the state.
    word(RECORDS_AT + place * RECORD_WORDS + index).load(Ordering::Relaxed)
}

pub(super) fn set_field(place: usize, index: usize, value: u64) {
    // Relaxed: see `field`.
    word(RECORDS_AT + place * RECORD_WORDS + index).store(value, Ordering::Relaxed);
}

/// Writes an event that happens now, in the calling thread.
pub(super) fn set_event(place: usize, event: usize, frames: &[usize]) {
    set_field(place, event, clock::coarse_ms());
    let thread = u64::from(thread::id().cast_unsigned());
    let count = frames.len().min(FRAMES_MAX);
    set_field(place, event + 1, thread << 32 | count as u64);
    for (index, frame) in frames[..count].iter().enumerate() {
        set_field(place, event + 2 + index, *frame as u64);
    }
}

/// Notes that an event has not happened to the block.
pub(super) fn clear_event(place: usize, event: usize) {
    set_field(place, event + 1, 0);
}

/// Copies a place's record. False if the place has never had a block, or is being changed.
/// Async-signal-safe.
pub(super) fn read_record(place: usize, record: &mut Record) -> bool {
    const ATTEMPTS: usize = 64;
    for _ in 0..ATTEMPTS {
        record.state = state(place);
        match State::of(record.state) {
            State::Unused => return false,
            State::Changing => {
                core::hint::spin_loop();
                continue;
            }
            _ => {}
        }
        for (index, word) in record.words.iter_mut().enumerate() {
            *word = field(place, index);
        }
        // SeqCst pairs with the fence in `change`: if a word is of a later block, the state that is
        // read below is a later one. [G3]
        fence(Ordering::SeqCst);
        if state(place) == record.state {
            return true;
        }
    }
    false
}

/// Notes the last error, for a core dump.
pub(super) fn note_error(misuse: Misuse, address: usize) {
    for (index, value) in [misuse as u64 + 1, address as u64, clock::coarse_ms()].iter().enumerate()
    {
        // Relaxed: read in a core dump.
        word(ERROR + index).store(*value, Ordering::Relaxed);
    }
}
