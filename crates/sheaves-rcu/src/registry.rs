//! The threads that read: one record for each, in mapped blocks that are never unmapped.
//!
//! A thread holds the address of its record in its own memory, and grace periods find all records
//! here. Since a record outlives its thread, looking at one is always safe; nobody ever looks into
//! the memory of a thread.
//!
//! How a record comes back:
//!
//! 1. At the end of its thread, by the function that libc calls after the destructors of the
//!    language. A thread that reads again after that gets another record, and another call.
//! 2. Where that did not happen (no key was to be had, a thread ended by a bare system call, or
//!    read in the last round of destructors): the kernel is asked whether the thread is alive, when
//!    a block of records is used up, and when a record holds a grace period up.
//! 3. In the child of a fork, which has one thread.
//!
//! None of these ends a section. A thread may end inside one for which it has leaked the guard, and
//! have given others what it found there, so its record is *held* and never comes back: grace
//! periods wait for ever, which is reported when the thread ends, or when it is found gone.
//!
//! Everything is lock-free, so that a signal handler can register its thread. Who has a record, and
//! how it is taken back once, stands in `owner`.

use core::ffi::c_void;
use core::panic::Location;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use sheaves_sys::{errno, map, process, report, thread, tls};

use crate::mode::{Mode, mode};
use crate::owner::{Owner, Seen};
use crate::word::{self, FENCED, INSIDE, SLOWLY};

/// What is known of a reading thread. One cache line, which its thread alone writes to.
#[repr(C, align(64))]
pub(crate) struct Record {
    /// See [`crate::word`]. Has to be first: it is what the thread's pointer points to.
    pub(crate) word: AtomicU64,
    /// The second word, see there. Has to come next.
    inside: AtomicU64,
    /// Grace periods that had begun before the thread's last full fence, see `fences`.
    pub(crate) fenced: AtomicU64,
    /// Its thread, see there.
    pub(crate) owner: Owner,
    /// Number of the record + 1, of the next one on the stack of free records.
    next: AtomicU32,
    /// Number of this record.
    number: AtomicU32,
    /// Rounds of destructors in which the thread was reading.
    rounds: AtomicU32,
    /// Where the outermost section was entered, in builds with debug assertions.
    pub(crate) entered: AtomicPtr<Location<'static>>,
}

const _: () = {
    assert!(size_of::<Record>() == 64);
    assert!(core::mem::offset_of!(Record, word) == 0);
    assert!(core::mem::offset_of!(Record, inside) == 8);
};

/// Records that are mapped at a time. Zero bytes are such a block.
#[repr(C)]
struct Block {
    records: [Record; BLOCK_RECORDS as usize],
}

/// Records in a block.
const BLOCK_RECORDS: u32 = 1024;
/// Blocks at most: for a million threads at a time.
const BLOCKS_MAX: usize = 1024;
/// Rounds that libc makes through the functions of keys.
const ROUNDS: u32 = 4;

/// Addresses of the blocks, from the first on without gaps.
static BLOCKS: [AtomicPtr<Block>; BLOCKS_MAX] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; BLOCKS_MAX];

/// Records below this number have been used. Their blocks are there.
static USED: AtomicU32 = AtomicU32::new(0);

/// Stack of free records: number + 1 in the low half, a tag that changes with each step above.
static FREE: AtomicU64 = AtomicU64::new(0);

/// How often a record was taken.
static STAMPS: AtomicU64 = AtomicU64::new(0);

/// The process whose threads have the records. Written by the first who registers or begins a grace
/// period, and in the child of a fork.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Sections of threads for which there was no memory for a record: they are counted together, and
/// each thread knows how many of them are its own. A grace period waits until there is none, so it
/// may wait for sections that began after it, and for ever where such a thread has ended inside.
pub(crate) static OVERFLOW: AtomicU64 = AtomicU64::new(0);

/// The calling thread's record, if it has one.
pub(crate) fn own() -> Option<&'static Record> {
    let own = tls::reader();
    // SAFETY: a thread's pointer points to the constant, or to a record, which lives for good.
    (!core::ptr::eq(own, tls::no_reader())).then(|| unsafe { &*own.cast::<Record>() })
}

/// How many records a grace period has to look at.
pub(crate) fn count() -> u32 {
    // Acquire pairs with the AcqRel in `take_fresh`: the blocks are there. [R1]
    USED.load(Ordering::Acquire)
}

/// A record by its number, which is below [`count`].
pub(crate) fn record(number: u32) -> &'static Record {
    &block(number).records[(number % BLOCK_RECORDS) as usize]
}

/// The block of a record.
fn block(number: u32) -> &'static Block {
    // Acquire pairs with the Release in `has_block`.
    let block = BLOCKS[(number / BLOCK_RECORDS) as usize].load(Ordering::Acquire);
    // SAFETY: the number is below `USED`, so the block is there, and for good. Zero bytes are one.
    unsafe { &*block }
}

/// Once, before the first record: what is called at the end of threads.
pub(crate) fn prepare() {
    // Relaxed: a number that is the same whoever stores it.
    PROCESS.store(process::id(), Ordering::Relaxed);
    thread::prepare_at_exit(at_exit);
}

/// Once, after [`prepare`]: says what a program can notice.
pub(crate) fn report_place() {
    if !tls::has_place_for_reader() {
        report::report(format_args!(
            "rcu: libc has no key left below 32: readers are counted together, and grace periods \
             wait until nobody reads"
        ));
    }
}

/// The calling thread's record's word, which it gets now if it has none. `None` without memory, or
/// where threads cannot have one: then their sections are counted in [`OVERFLOW`].
///
/// No handler comes in between: one that forks would make free, in the child, the very record that
/// is being taken here.
#[cold]
pub(crate) fn register() -> Option<*const u64> {
    errno::preserve(|| thread::with_signals_blocked(register_with_signals_blocked))
}

fn register_with_signals_blocked() -> Option<*const u64> {
    let own = tls::reader();
    if !core::ptr::eq(own, tls::no_reader()) {
        // A handler came before.
        return Some(own);
    }
    let inside = if mode() == Mode::Fences { SLOWLY } else { word::cold() };
    // Known once the mode is.
    if !tls::has_place_for_reader() {
        return None;
    }
    let record = take_free().or_else(take_fresh)?;
    // Release pairs with the Acquire of the scan, which may meet this word after one that the
    // record's last thread stored, and has to know of that thread's sections. [R4]
    record.word.store(FENCED, Ordering::Release);
    // Relaxed, here and below: the record is ours alone. What makes grace periods see it is the
    // fence of its first section.
    record.inside.store(inside, Ordering::Relaxed);
    record.rounds.store(0, Ordering::Relaxed);
    take(record);
    let address: *const u64 = record.word.as_ptr();
    let _ = tls::exchange_reader(tls::no_reader(), address);
    // Where there is no key, whoever finds the thread gone takes the record back.
    thread::set_at_exit(record_address(record));
    Some(address)
}

/// Makes a record that is free, or the caller's already, that of the calling thread.
fn take(record: &Record) {
    // Relaxed: a number that nobody else gets.
    let stamp = STAMPS.fetch_add(1, Ordering::Relaxed);
    record.owner.take(stamp, thread::id());
}

fn record_address(record: &'static Record) -> usize {
    core::ptr::from_ref(record).expose_provenance()
}

/// A record that was given back.
fn take_free() -> Option<&'static Record> {
    // Acquire pairs with the Release in `push`: the record's link.
    let mut head = FREE.load(Ordering::Acquire);
    loop {
        let number = (head as u32).checked_sub(1)?;
        let free = record(number);
        // Relaxed: if it is not the one of `head` any more, the tag is not either.
        let next = free.next.load(Ordering::Relaxed);
        let new = tagged(head, next);
        // Acquire, both, pair with the Release in `push`.
        match FREE.compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return Some(free),
            Err(now) => head = now,
        }
    }
}

fn push(record: &Record) {
    // Relaxed, here and below: the record is ours until the exchange publishes it.
    let number = record.number.load(Ordering::Relaxed);
    let mut head = FREE.load(Ordering::Relaxed);
    loop {
        record.next.store(head as u32, Ordering::Relaxed);
        let new = tagged(head, number + 1);
        // Release pairs with the Acquire in `take_free`. Relaxed on failure: it is tried again.
        match FREE.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// A head with the next tag.
fn tagged(head: u64, link: u32) -> u64 {
    (((head >> 32) + 1) << 32) | u64::from(link)
}

/// A record that was never used.
fn take_fresh() -> Option<&'static Record> {
    loop {
        // Relaxed: a number; the exchange below orders.
        let number = USED.load(Ordering::Relaxed);
        let is_end_of_block = number > 0 && number.is_multiple_of(BLOCK_RECORDS);
        if is_end_of_block
            && sweep()
            && let Some(swept) = take_free()
        {
            return Some(swept);
        }
        if !has_block((number / BLOCK_RECORDS) as usize) {
            return None;
        }
        // AcqRel: Release pairs with the Acquire in `count`; Acquire with whoever was first.
        // Relaxed on failure: it is tried again. [R1]
        let won = USED.compare_exchange(number, number + 1, Ordering::AcqRel, Ordering::Relaxed);
        if won.is_ok() {
            let fresh = record(number);
            // Relaxed: ours alone.
            fresh.number.store(number, Ordering::Relaxed);
            return Some(fresh);
        }
    }
}

/// Sees to it that a block is there. False when there is no memory, or no place for more.
fn has_block(block: usize) -> bool {
    let Some(place) = BLOCKS.get(block) else { return false };
    // Acquire pairs with the Release below.
    if !place.load(Ordering::Acquire).is_null() {
        return true;
    }
    let bytes = size_of::<Block>();
    let Some(address) = map::anywhere(bytes) else { return false };
    let made = core::ptr::with_exposed_provenance_mut(address);
    // Release pairs with the Acquire above and in `record`. Relaxed on failure: ours is not used.
    let null = core::ptr::null_mut();
    if place.compare_exchange(null, made, Ordering::Release, Ordering::Relaxed).is_err() {
        // SAFETY: mapped above and known to nobody.
        unsafe { map::unmap(address, bytes) };
    }
    true
}

/// Gives a record back, for its thread.
fn give_back(record: &'static Record) {
    clear(record);
    record.owner.give_back();
    push(record);
}

/// No section is open, and the next one is fenced.
fn clear(record: &Record) {
    // Release pairs with the Acquire of the scan and in `fences::look`: the thread's sections. [R4]
    record.word.store(FENCED, Ordering::Release);
    // Relaxed: `push` publishes it.
    record.entered.store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// Called at the end of a thread that has registered, with its record.
unsafe extern "C" fn at_exit(value: *mut c_void) {
    // SAFETY: the value is the address of a record, which lives for good.
    let record = unsafe { &*value.cast_const().cast::<Record>() };
    // Relaxed, here and below: the thread's own words.
    if !word::is_reading(record.word.load(Ordering::Relaxed)) {
        // As in `register`: no handler finds the record half given back, or forks in between.
        thread::with_signals_blocked(|| {
            let _ = tls::exchange_reader(record.word.as_ptr(), tls::no_reader());
            give_back(record);
        });
        return;
    }
    // A destructor that comes later may end the section.
    let rounds = record.rounds.load(Ordering::Relaxed) + 1;
    record.rounds.store(rounds, Ordering::Relaxed);
    if rounds < ROUNDS {
        thread::set_at_exit(value.expose_provenance());
    } else {
        hold(record, record.owner.look());
    }
}

/// Notes and reports, once, that a thread has left a section open at its end.
fn hold(record: &Record, seen: Seen) {
    if !record.owner.hold(seen) {
        return;
    }
    let thread = seen.thread();
    report::report(format_args!(
        "rcu: thread {thread} has ended inside a read section: no grace period will end any more"
    ));
}

/// Takes a record back if its thread is gone and has left no section open. True if so, or if it
/// was free anyway.
pub(crate) fn take_back(record: &'static Record) -> bool {
    let seen = record.owner.look();
    // Relaxed: looked at again below, once the thread is known to be gone.
    let is_reading = || word::is_reading(record.word.load(Ordering::Relaxed));
    if seen.thread() == 0 {
        return true;
    }
    if (seen.is_held() && is_reading()) || !is_gone(seen) {
        return false;
    }
    // Acquire pairs with the kernel's locks: it says that the thread is gone after the thread has
    // gone through them, so what is read from now on is what it has left.
    fence(Ordering::Acquire);
    if is_reading() {
        hold(record, seen);
        return false;
    }
    let is_ours = record.owner.take_back(seen);
    if is_ours {
        clear(record);
        push(record);
    }
    is_ours
}

/// Is the thread gone that was seen as the owner of a record?
///
/// The kernel gives numbers out again: where a thread of that number is alive, and has taken
/// another record later, then this one is from a thread before it. In a child in which no handlers
/// of ours have run yet (`_Fork`, `clone`) the numbers say nothing: nobody is found gone.
fn is_gone(seen: Seen) -> bool {
    // Relaxed: written where there is one thread, or the same.
    if process::id() != PROCESS.load(Ordering::Relaxed) {
        return false;
    }
    let is_later = |other: u32| record(other).owner.look().follows(seen);
    !thread::is_alive(seen.thread()) || (0..count()).any(is_later)
}

/// Takes back the records of threads that are gone. True if there were any.
fn sweep() -> bool {
    let mut found = false;
    for number in 0..count() {
        let record = record(number);
        // `take_back` looks again. It looks at all other records where the number is in use, which
        // is too much for all of them.
        let thread = record.owner.look().thread();
        if thread != 0 && !thread::is_alive(thread) {
            found |= take_back(record);
        }
    }
    found
}

/// In the child of a fork: forgets all threads but the caller, and gives it its new number. The
/// sections that threads have left open at their end stay open.
pub(crate) fn restart_in_child(readers_fence: bool) {
    let own = tls::reader();
    // Relaxed, all: the child has one thread.
    PROCESS.store(process::id(), Ordering::Relaxed);
    FREE.store(0, Ordering::Relaxed);
    OVERFLOW.store(u64::from(tls::shared_sections()), Ordering::Relaxed);
    for number in 0..count() {
        let record = record(number);
        if core::ptr::eq(record.word.as_ptr(), own) {
            take(record);
            if readers_fence {
                record.word.fetch_or(FENCED, Ordering::Relaxed);
                let inside = record.inside.load(Ordering::Relaxed) & INSIDE;
                record.inside.store(SLOWLY | inside, Ordering::Relaxed);
            }
        } else {
            // What another thread had begun to write, its number perhaps, is made up for.
            record.number.store(number, Ordering::Relaxed);
            let is_reading = word::is_reading(record.word.load(Ordering::Relaxed));
            if !(is_reading && record.owner.look().is_held()) {
                give_back(record);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_given_out_again_is_told_apart() {
        let own = || owner(super::own().unwrap());
        drop(crate::read());
        // The record of a thread that vanished, and whose number is ours now. Its stamp is the one
        // before the first.
        let stale = take_free().or_else(take_fresh).unwrap();
        stale.owner.take(u64::MAX, own().thread());
        // It stays in the section that it has left open.
        stale.word.store(word::FIRST, Ordering::Release);
        assert!(!take_back(stale) && owner(stale).is_held() && !take_back(stale));
        stale.word.store(FENCED, Ordering::Release);
        assert!(take_back(stale));
        assert_eq!(owner(stale).thread(), 0);
        // Our own record is not taken from us, inside a section or outside.
        let before = own();
        assert!(!take_back(super::own().unwrap()));
        let guard = crate::read();
        assert!(!take_back(super::own().unwrap()));
        assert!(crate::is_reading());
        drop(guard);
        assert_eq!(own(), before);
    }

    #[test]
    fn the_record_of_a_child_without_handlers_is_its_own() {
        drop(crate::read());
        // SAFETY: integers only. Where the signal is ignored nobody could wait for a child.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let null = core::ptr::null_mut::<u8>();
        // SAFETY: the child has a copy of the stack, and ends below.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, null, null, null, 0) };
        if child == 0 {
            let own = super::own().unwrap();
            let guard = crate::read();
            let is_kept = !take_back(own) && !owner(own).is_held();
            drop(guard);
            let status = i32::from(!is_kept || take_back(own));
            // SAFETY: ends the child, which has not waited for anything.
            unsafe { libc::_exit(status) };
        }
        let child = i32::try_from(child).unwrap();
        let mut status = -1;
        for _ in 0..10_000 {
            thread::sleep_ns(1_000_000);
            // SAFETY: looks after the child that was just made.
            if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } != 0 {
                break;
            }
        }
        if status == -1 {
            // SAFETY: the child that was just made, which hangs.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        assert_eq!(status, 0, "the child's own record was taken from it");
    }

    fn owner(record: &Record) -> Seen {
        record.owner.look()
    }
}
