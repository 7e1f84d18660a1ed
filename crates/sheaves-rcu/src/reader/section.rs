//! Read sections of the default domain: entering and leaving.
//!
//! Neither has an atomic read-modify-write instruction or a hardware fence: the membarrier of the
//! grace period acts as a fence in the reader, which only keeps the compiler from reordering its
//! steps. Where membarrier is refused, a bit in the state sends both to the slow path, which
//! fences. `grace::period` has the proof.
//!
//! A section works in a signal handler that interrupts any instruction. A handler leaves every
//! section that it enters. So what the interrupted thread has read of its record is still true, or
//! is older and makes a grace period wait longer. The handler finds the state stored, or stores it,
//! and fences itself where the state says so. The test `handlers` interrupts every instruction.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use sheaves_sys::{errno, fork, futex, report, tls};

use super::mode;
use super::registry::{self, OVERFLOW, Record};
use crate::protocol::reader::{self, FIRST, Left, Reader};

/// The sequence that an outermost section copies, alone on its cache line. The leader writes it.
#[repr(align(128))]
pub(crate) struct Global(pub(crate) AtomicU64);

pub(crate) static GLOBAL: Global = Global(AtomicU64::new(FIRST));

/// The reader with which a section was entered, and is left.
pub(crate) type Entered = *const Reader;

#[inline(always)]
fn reader_at(entered: Entered) -> &'static Reader {
    // SAFETY: records and the constant begin with a reader and are never unmapped; access is
    // atomic.
    unsafe { &*entered }
}

/// Enters a section. Never blocks; async-signal-safe.
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn enter() -> Entered {
    let own: Entered = tls::reader().cast();
    if reader_at(own).enter(&GLOBAL.0) {
        record_location(own);
        own
    } else {
        enter_slow()
    }
}

/// Leaves any one of the sections that are open in this thread. Never blocks; async-signal-safe.
///
/// # Safety
/// `entered` was returned by an `enter` of this thread that is not left yet.
#[inline(always)]
pub(crate) unsafe fn leave(entered: Entered) {
    let own = reader_at(entered);
    // Relaxed: the thread's own state.
    if own.nesting.load(Ordering::Relaxed) == 0 {
        // Release pairs with the Acquire of the scan: the section is over. [R4]
        own.state.store(reader::OUTSIDE, Ordering::Release);
    } else {
        leave_slow(entered);
    }
}

/// Leaves the innermost section of the calling thread. Never blocks; async-signal-safe.
///
/// # Safety
/// The calling thread has an open section.
#[inline(always)]
pub(crate) unsafe fn leave_innermost() {
    let entered: Entered = tls::reader().cast();
    let own = reader_at(entered);
    // Relaxed, both: the thread's own record. If it got it after the section began, the section is
    // counted in `OVERFLOW`, and the state has no section.
    let is_only = own.nesting.load(Ordering::Relaxed) == 0;
    if is_only && reader::is_reading(own.state.load(Ordering::Relaxed)) {
        // Release pairs with the Acquire of the scan: the section is over. [R4]
        own.state.store(reader::OUTSIDE, Ordering::Release);
    } else {
        leave_slow(entered);
    }
}

/// Enters the first section of a thread, a nested one, or one that fences.
#[cold]
#[inline(never)]
#[cfg_attr(debug_assertions, track_caller)]
fn enter_slow() -> Entered {
    let mut own = tls::reader();
    if core::ptr::eq(own, tls::no_reader()) {
        let registered = || registry::register(mode::new_readers_fence());
        own = errno::preserve(registered).unwrap_or(own);
    }
    let entered: Entered = own.cast();
    if !core::ptr::eq(own, tls::no_reader()) {
        match reader_at(entered).enter_slow(&GLOBAL.0) {
            None => die_of_sections(),
            Some(true) => record_location(entered),
            Some(false) => {}
        }
        return entered;
    }
    enter_shared();
    entered
}

/// Counts a section of the calling thread in [`OVERFLOW`].
pub(super) fn enter_shared() {
    let generation = fork::generation();
    let Some(sections) = tls::shared_sections().checked_add(1) else { die_of_sections() };
    tls::set_shared_sections(sections);
    // SeqCst pairs with the heavy fence: either a grace period counts this section, or the section
    // sees what the updater unlinked. [R2]
    OVERFLOW.fetch_add(1, Ordering::SeqCst);
    settle(generation, sections);
    // SeqCst, as above: for what this section reads. [R2]
    fence(Ordering::SeqCst);
}

/// Once a thread has changed its own number of sections and [`OVERFLOW`]: a handler may have forked
/// in between. In the child the thread's own number is that of all.
fn settle(generation: usize, sections: u32) {
    if fork::generation() != generation {
        sheaves_sys::restart_word!(OVERFLOW, u64::from(sections));
    }
}

/// If the count wrapped to 0, the next unlock would end all sections.
#[cold]
fn die_of_sections() -> ! {
    report::die(format_args!("rcu: a thread has 4294967296 open read sections: guards are leaked"));
}

/// Leaves a nested section, one that fences, or one that is counted in [`OVERFLOW`].
#[cold]
#[inline(never)]
fn leave_slow(entered: Entered) {
    if !core::ptr::eq(entered.cast(), tls::no_reader()) {
        match reader_at(entered).leave_slow() {
            Left::Section => return,
            Left::Awaited => return wake_leader(),
            Left::NoSection => {}
        }
    }
    leave_shared();
}

/// Ends a section that is counted in [`OVERFLOW`].
pub(super) fn leave_shared() {
    let generation = fork::generation();
    let own = tls::shared_sections();
    // Without an area a thread does not know its own ones.
    let is_none = tls::HAS_AREA && own == 0;
    // Release pairs with the Acquire of the scan. Relaxed on failure: nothing was changed. [R4]
    let less = |count: u64| count.checked_sub(1).filter(|_| !is_none);
    if OVERFLOW.fetch_update(Ordering::Release, Ordering::Relaxed, less).is_err() {
        report::die(format_args!("rcu: a read section is left that was not entered"));
    }
    let sections = own.saturating_sub(1);
    tls::set_shared_sections(sections);
    settle(generation, sections);
}

/// Changes when a section has ended that the leader waits for.
static ENDED: AtomicU32 = AtomicU32::new(0);

#[cold]
fn wake_leader() {
    // Relaxed: the leader reads the state again.
    ENDED.fetch_add(1, Ordering::Relaxed);
    futex::wake(&ENDED, 1);
}

/// For the leader: sleeps until the section of a reader that has not passed has ended, for this
/// time at most. A reader that is about to leave it may not notice.
pub(crate) fn sleep_until_ended(reader: &Reader, nanoseconds: u64) {
    // Relaxed, both: as in `wake_leader`; the leader writes the sequence.
    let seen = ENDED.load(Ordering::Relaxed);
    reader.ask_to_wake();
    if !reader.has_passed(GLOBAL.0.load(Ordering::Relaxed)) {
        futex::wait_for(&ENDED, seen, nanoseconds);
    }
}

/// True while the calling thread is inside a read section of the default domain.
#[inline]
#[must_use]
pub fn is_reading() -> bool {
    let own: Entered = tls::reader().cast();
    // Relaxed: the thread's own state, or a constant.
    let state = reader_at(own).state.load(Ordering::Relaxed);
    (reader::is_reading(state) && state != u64::MAX) || tls::shared_sections() != 0
}

/// In builds with debug assertions: records where the outermost section was entered.
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
fn record_location(own: Entered) {
    if cfg!(debug_assertions) {
        let location = core::panic::Location::caller();
        // SAFETY: a record begins with its reader; a section never begins in the constant.
        let record = unsafe { &*own.cast::<Record>() };
        // Relaxed: for a report, which reads constant memory through this pointer.
        record.entered.store(core::ptr::from_ref(location).cast_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/section.rs"]
mod tests;
