//! The threads that read: one record each, in mapped segments that are never unmapped.
//!
//! A thread holds the address of its record in its own memory, and grace periods find all records
//! here. A record outlives its thread, so reading one is always safe.
//!
//! How a record becomes free again:
//!
//! 1. At the end of its thread: libc calls [`at_exit`] after the destructors of the language. A
//!    thread that reads again after that gets another record, and another call.
//! 2. If that call did not happen (no key was left, the thread ended by a bare system call, or it
//!    read in the last round of destructors), the kernel is asked whether the thread is alive: when
//!    a segment of records is used up, and when a record delays a grace period; not in a sandbox.
//! 3. In the child of a fork, which has one thread.
//!
//! None of these ends a section. A thread may end in a section whose guard it has leaked, and
//! others may use what it found there. Its record is then *held*: it never becomes free, and grace
//! periods wait for ever. This is reported.
//!
//! Everything is lock-free, and consistent at each instruction, so that a signal handler can
//! register its thread, or fork. A record on its way from the stack of free ones to its thread, or
//! back, has no `owner`. A child of a fork leaves it alone: the forking thread goes on with it, or
//! it is lost.

use core::ffi::c_void;
use core::panic::Location;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use sheaves_sys::{fork, map, report, thread, tls};

use crate::protocol::owner::{Owner, Seen};
use crate::protocol::reader::{self, OUTSIDE_FENCED, Reader, SLOW};

/// What is known of a reading thread. One cache line, which only its thread writes to.
#[repr(C, align(64))]
pub(crate) struct Record {
    /// Must be first: the thread's pointer points to it.
    pub(crate) reader: Reader,
    /// Its thread, see `owner`.
    pub(crate) owner: Owner,
    /// Number + 1 of the next record on the stack of free records; of one in use its own number.
    next: AtomicU32,
    /// Rounds of destructors at the thread's end in which it was reading.
    rounds: AtomicU32,
    /// Where the outermost section was entered, in builds with debug assertions.
    pub(crate) entered: AtomicPtr<Location<'static>>,
}

const _: () = {
    assert!(size_of::<Record>() == 64);
    assert!(core::mem::offset_of!(Record, reader.state) == 0);
    assert!(core::mem::offset_of!(Record, reader.nesting) == 8);
};

/// Records that are mapped together. Zero bytes are a valid segment.
type Segment = [Record; SEGMENT_RECORDS as usize];

const SEGMENT_RECORDS: u32 = 1024;
/// Enough for a million threads at a time.
const SEGMENTS_MAX: usize = 1024;
/// The number of rounds in which libc calls the destructors of keys.
const ROUNDS: u32 = 4;

/// Addresses of the segments. Segments are added in order, without gaps.
static SEGMENTS: [AtomicPtr<Segment>; SEGMENTS_MAX] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; SEGMENTS_MAX];
/// Records below this number have been used. Their segments exist.
static USED: AtomicU32 = AtomicU32::new(0);
/// Stack of free records: number + 1, and in the upper half a tag that each change increments.
static FREE: AtomicU64 = AtomicU64::new(0);
static STAMPS: AtomicU64 = AtomicU64::new(0);
/// Open sections of threads without a record; each thread knows how many are its own. A grace
/// period waits until the count is zero: also for later sections, and for ever if such a thread has
/// ended in a section.
pub(crate) static OVERFLOW: AtomicU64 = AtomicU64::new(0);

/// The word of a thread, its state, by a pointer to the whole record.
fn word_of(record: &Record) -> *const u64 {
    core::ptr::from_ref(record).cast()
}

pub(crate) fn own() -> Option<&'static Record> {
    let own = tls::reader();
    // SAFETY: a thread's pointer points to the constant or to a record, which is never unmapped.
    (!core::ptr::eq(own, tls::no_reader())).then(|| unsafe { &*own.cast::<Record>() })
}

/// The number of records that a grace period scans.
pub(crate) fn count() -> u32 {
    // Acquire pairs with the AcqRel in `take_fresh`: the segments exist. [R1]
    USED.load(Ordering::Acquire)
}

/// A record. `number` is below [`count`].
pub(crate) fn record(number: u32) -> &'static Record {
    // Acquire pairs with the Release in `has_segment`.
    let segment = SEGMENTS[(number / SEGMENT_RECORDS) as usize].load(Ordering::Acquire);
    // SAFETY: the number is below `USED`: the segment exists, and is never unmapped; zero bytes are
    // valid.
    let segment: &'static Segment = unsafe { &*segment };
    &segment[(number % SEGMENT_RECORDS) as usize]
}

/// The state of the calling thread's record. A thread without one gets it now; if `readers_fence`,
/// all of its sections fence. `None` if memory is out, or where threads cannot have records: then
/// its sections are counted in [`OVERFLOW`].
#[cold]
pub(crate) fn register(readers_fence: bool) -> Option<*const u64> {
    let own = tls::reader();
    if !core::ptr::eq(own, tls::no_reader()) {
        // A handler has registered the thread before.
        return Some(own);
    }
    let nesting = if readers_fence { SLOW } else { reader::cold() };
    // Known once the mode is decided.
    if !tls::can_have_reader() {
        return None;
    }
    let number = take_free().or_else(take_fresh)?;
    let record = record(number);
    clear(record);
    // Relaxed, here and below: the record is this thread's. Its first section fences.
    record.next.store(number, Ordering::Relaxed);
    record.reader.nesting.store(nesting, Ordering::Relaxed);
    record.rounds.store(0, Ordering::Relaxed);
    let address = word_of(record);
    if !tls::exchange_reader(tls::no_reader(), address) {
        // A handler has registered the thread meanwhile.
        push(number);
        return Some(tls::reader());
    }
    take_here(record);
    // Where there is no key, a thread that finds this one gone takes the record back.
    thread::READERS.set(address.expose_provenance());
    Some(address)
}

/// Makes a thread the owner of a record that is on its way, or its own.
fn take(record: &Record, thread: i32) {
    // Relaxed: each number is given out once.
    record.owner.take(STAMPS.fetch_add(1, Ordering::Relaxed) + 1, thread);
}

/// Makes the calling thread the owner. Again if a handler has forked meanwhile: then the thread has
/// another number in the child.
fn take_here(record: &Record) {
    let mut thread = 0;
    while thread != thread::id() {
        thread = thread::id();
        take(record, thread);
    }
}

fn take_free() -> Option<u32> {
    let rest = |head: u64| {
        let first = (head as u32).checked_sub(1)?;
        // Relaxed: if the record is not the first any more, the tag has changed.
        Some(tagged(head, record(first).next.load(Ordering::Relaxed)))
    };
    // Acquire, both, pair with the Release in `push`, which stored the record's link.
    let taken = FREE.fetch_update(Ordering::Acquire, Ordering::Acquire, rest);
    taken.ok().map(|head| head as u32 - 1)
}

fn push(number: u32) {
    let link = |head: u64| {
        // Relaxed: the record belongs to this thread until the exchange publishes it.
        record(number).next.store(head as u32, Ordering::Relaxed);
        Some(tagged(head, number + 1))
    };
    // Release pairs with the Acquire in `take_free`. Relaxed on failure: retried.
    let _ = FREE.fetch_update(Ordering::Release, Ordering::Relaxed, link);
}

fn tagged(head: u64, link: u32) -> u64 {
    (((head >> 32) + 1) << 32) | u64::from(link)
}

fn take_fresh() -> Option<u32> {
    loop {
        // Relaxed: only a number; the exchange below orders.
        let number = USED.load(Ordering::Relaxed);
        let is_end_of_segment = number > 0 && number.is_multiple_of(SEGMENT_RECORDS);
        if is_end_of_segment
            && sweep()
            && let Some(swept) = take_free()
        {
            return Some(swept);
        }
        if !has_segment((number / SEGMENT_RECORDS) as usize) {
            return None;
        }
        // AcqRel: Release pairs with the Acquire in `count`; Acquire with the Release of the thread
        // before. Relaxed on failure: retried. [R1]
        let won = USED.compare_exchange(number, number + 1, Ordering::AcqRel, Ordering::Relaxed);
        if won.is_ok() {
            return Some(number);
        }
    }
}

/// Maps a segment if it does not exist. False when memory is out, or all segments are used.
fn has_segment(segment: usize) -> bool {
    let Some(entry) = SEGMENTS.get(segment) else { return false };
    // Acquire pairs with the Release below.
    if !entry.load(Ordering::Acquire).is_null() {
        return true;
    }
    let bytes = size_of::<Segment>();
    let Some(address) = map::anywhere(bytes) else { return false };
    let made = core::ptr::with_exposed_provenance_mut(address);
    // Release pairs with the Acquire above and in `record`. Relaxed on failure: not used.
    let null = core::ptr::null_mut();
    if entry.compare_exchange(null, made, Ordering::Release, Ordering::Relaxed).is_err() {
        // SAFETY: mapped above and never published.
        unsafe { map::unmap(address, bytes) };
    }
    true
}

/// Frees a record after its owner was `seen`: its thread, or one that is gone. True for one caller.
fn give_back(number: u32, seen: Seen) -> bool {
    let is_ours = record(number).owner.take_back(seen);
    if is_ours {
        clear(record(number));
        push(number);
    }
    is_ours
}

/// Stores that no section is open and that the next one fences.
fn clear(record: &Record) {
    // Release pairs with the Acquire of the scan and in `passed`: the sections before, of this
    // thread or the record's previous one. [R4]
    record.reader.state.store(OUTSIDE_FENCED, Ordering::Release);
    // Relaxed: `push` publishes it.
    record.entered.store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// Called at the end of a thread that has registered, with the address of its record.
pub(super) unsafe extern "C" fn at_exit(value: *mut c_void) {
    // SAFETY: from `register`; records are never unmapped.
    let record = unsafe { &*value.cast::<Record>() };
    let seen = record.owner.load();
    // Relaxed, here and below: the thread's own words.
    let number = record.next.load(Ordering::Relaxed);
    if !reader::is_reading(record.reader.state.load(Ordering::Relaxed)) {
        // First, so that no handler uses the record from here on.
        let _ = tls::exchange_reader(word_of(record), tls::no_reader());
        give_back(number, seen);
        return;
    }
    // A destructor that runs after this may end the section.
    let rounds = record.rounds.load(Ordering::Relaxed) + 1;
    record.rounds.store(rounds, Ordering::Relaxed);
    if rounds < ROUNDS {
        thread::READERS.set(value.expose_provenance());
    } else {
        hold(record, seen);
    }
}

/// Holds the record of a thread that has ended with an open section, and reports that once.
fn hold(record: &Record, seen: Seen) {
    if !record.owner.hold(seen) {
        return;
    }
    let thread = seen.thread();
    report::report(format_args!(
        "rcu: thread {thread} has ended inside a read section: no grace period will end any more"
    ));
}

/// Frees a record if its thread is gone and has left no section open. True if it is free then.
pub(crate) fn take_back(number: u32) -> bool {
    let record = record(number);
    let seen = record.owner.load();
    // Relaxed: read again below, once the thread is known to be gone.
    let is_reading = || reader::is_reading(record.reader.state.load(Ordering::Relaxed));
    if seen.is_free() {
        return true;
    }
    if (seen.is_held() && is_reading()) || !is_gone(seen) {
        return false;
    }
    // Acquire pairs with the kernel's locks, which the thread has passed through before the kernel
    // says that it is gone: the reads below see what it stored last.
    fence(Ordering::Acquire);
    if is_reading() {
        hold(record, seen);
        return false;
    }
    give_back(number, seen)
}

/// True if the thread that was seen as the owner of a record is gone: the kernel says so, or a
/// thread of that number, which the kernel reuses, has taken another record later.
///
/// In a child whose fork has run no handlers yet (`_Fork`, `clone`) the numbers mean nothing, and
/// no thread is found gone.
fn is_gone(seen: Seen) -> bool {
    if seen.thread() == 0 || fork::is_pending() {
        return false;
    }
    let is_later = |other: u32| record(other).owner.load().follows(seen);
    !thread::is_alive(seen.thread()) || (0..count()).any(is_later)
}

/// Frees the records of threads that are gone. True if there were any.
fn sweep() -> bool {
    let mut found = false;
    for number in 0..count() {
        // `take_back` checks again, but reads all records if the number is in use.
        let thread = record(number).owner.load().thread();
        if thread != 0 && !thread::is_alive(thread) {
            found |= take_back(number);
        }
    }
    found
}

/// In the child of a fork: frees all records but the caller's, those that are held, and those on
/// their way. Without handlers the caller's number is not known: libc notices no bare `clone`.
pub(crate) fn restart_in_child() {
    let own = tls::reader();
    let thread = if fork::is_late() { 0 } else { thread::id() };
    sheaves_sys::restart_word!(OVERFLOW, u64::from(tls::shared_sections()));
    for number in 0..count() {
        let record = record(number);
        if core::ptr::eq(word_of(record), own) {
            take(record, thread);
        } else {
            let seen = record.owner.load();
            // Relaxed: the child has one thread.
            let is_reading = reader::is_reading(record.reader.state.load(Ordering::Relaxed));
            if !(seen.is_free() || is_reading && seen.is_held()) {
                give_back(number, seen);
            }
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/registry.rs"]
mod tests;
