//! Read sections of the default domain: entering and leaving.
//!
//! Neither has an atomic read-modify-write instruction or a hardware fence. A reader is ordered by
//! the membarrier of the grace period, which acts as a fence in every thread, at a point that the
//! reader does not know. So a reader only has to keep the compiler from reordering its steps. Where
//! membarrier is refused, a bit in the word sends both fast paths to the slow path, which fences.
//! See `grace` for the proof.
//!
//! A section works in a signal handler that interrupts any instruction. A handler leaves every
//! section that it enters, so the words have the same meaning for the interrupted thread as before:
//! what it has already read of them is still true, or is older and makes a grace period wait
//! longer. A nested section does everything that the outermost one does except the store, so a
//! handler does not rely on what the section around it has still to do. It finds the word stored,
//! or stores it, and fences itself where the word says so. The test `handlers` interrupts every
//! instruction.

use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

use sheaves_sys::{report, tls};

use crate::registry::{self, OVERFLOW, Record};
use crate::word::{self, FENCED, FIRST, IDLE, INSIDE};

/// The word that an outermost section copies. It is alone on its cache line: readers read it all
/// the time, and the leader writes it once per grace period.
#[repr(align(128))]
pub(crate) struct Global(pub(crate) AtomicU64);

pub(crate) static GLOBAL: Global = Global(AtomicU64::new(FIRST));

/// The first word of the thread that opened a section; the section is left by it.
pub(crate) type Word = *const AtomicU64;

/// The two words of a thread, see [`crate::word`].
#[repr(C)]
struct Words {
    first: AtomicU64,
    second: AtomicU64,
}

/// The two words, of which `word` points to the first.
#[inline(always)]
fn words(word: Word) -> &'static Words {
    // SAFETY: records and the constant begin with both words and are never unmapped, and all access
    // to these is atomic.
    unsafe { &*word.cast::<Words>() }
}

/// Enters a section. Never blocks; async-signal-safe.
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn enter() -> Word {
    let word: Word = tls::reader().cast();
    let place = &words(word).first;
    // Relaxed, both: only this thread writes the word. The sequence may be an old one: then a grace
    // period waits longer.
    if place.load(Ordering::Relaxed) == IDLE {
        let global = GLOBAL.0.load(Ordering::Relaxed);
        // Release pairs with the Acquire of the scan: the section before this one is over. [R4]
        place.store(global, Ordering::Release);
        remember_place(word);
        // SeqCst, for the compiler only: the section stays after the store. It pairs with the
        // membarrier of the grace period. [R3]
        compiler_fence(Ordering::SeqCst);
        word
    } else {
        enter_slow()
    }
}

/// Leaves any one of the sections that are open in this thread. Never blocks; async-signal-safe.
///
/// # Safety
/// `word` was returned by an `enter` of this thread that is not left yet.
#[inline(always)]
pub(crate) unsafe fn leave(word: Word) {
    let words = words(word);
    // Relaxed: the thread's own word.
    if words.second.load(Ordering::Relaxed) == 0 {
        // Release pairs with the Acquire of the scan: the section is over. [R4]
        words.first.store(IDLE, Ordering::Release);
    } else {
        leave_slow(word);
    }
}

/// Leaves the innermost section of the calling thread. Never blocks; async-signal-safe.
///
/// # Safety
/// The calling thread has an open section.
#[inline(always)]
pub(crate) unsafe fn leave_innermost() {
    let word: Word = tls::reader().cast();
    let words = words(word);
    // Relaxed, both: the thread's own words. If it got them after the section began, the section is
    // counted in `OVERFLOW`, and the first word has no section.
    let is_only = words.second.load(Ordering::Relaxed) == 0;
    if is_only && word::is_reading(words.first.load(Ordering::Relaxed)) {
        // Release pairs with the Acquire of the scan: the section is over. [R4]
        words.first.store(IDLE, Ordering::Release);
    } else {
        leave_slow(word);
    }
}

/// Enters the first section of a thread, a nested one, or one that fences.
#[cold]
#[inline(never)]
#[cfg_attr(debug_assertions, track_caller)]
fn enter_slow() -> Word {
    let mut own = tls::reader();
    if core::ptr::eq(own, tls::no_reader()) {
        own = registry::register().unwrap_or(own);
    }
    if core::ptr::eq(own, tls::no_reader()) {
        let Some(sections) = tls::shared_sections().checked_add(1) else { die_of_sections() };
        tls::set_shared_sections(sections);
        // SeqCst pairs with the heavy fence: either a grace period counts this section, or the
        // section sees what the updater unlinked. [R2]
        OVERFLOW.fetch_add(1, Ordering::SeqCst);
        // SeqCst, as above: for what this section reads. [R2]
        fence(Ordering::SeqCst);
        return own.cast();
    }
    let word: Word = own.cast();
    let words = words(word);
    // Relaxed, here and below: only this thread writes its words.
    let value = words.first.load(Ordering::Relaxed);
    if word::is_reading(value) {
        let inside = words.second.load(Ordering::Relaxed);
        if inside & INSIDE == INSIDE {
            die_of_sections();
        }
        words.second.store(inside + 1, Ordering::Relaxed);
    } else {
        let global = GLOBAL.0.load(Ordering::Relaxed);
        // Release, as in `enter`. [R4]
        words.first.store(word::outermost(value, global), Ordering::Release);
        remember_place(word);
        if value & FENCED != 0 {
            let second = words.second.load(Ordering::Relaxed);
            words.second.store(word::warmed(second), Ordering::Relaxed);
        }
    }
    if value & FENCED != 0 {
        // SeqCst pairs with the heavy fence of the grace period. A nested section fences, too: it
        // may be in a signal handler that came between the outermost section's store and its fence.
        // [R2]
        fence(Ordering::SeqCst);
    }
    // SeqCst, for the compiler only, as in `enter`. [R3]
    compiler_fence(Ordering::SeqCst);
    word
}

/// If the count wrapped to 0, the next unlock would end all sections.
#[cold]
fn die_of_sections() -> ! {
    report::die(format_args!("rcu: a thread has 4294967296 open read sections: guards are leaked"));
}

/// Leaves a nested section, one that fences, or one that is counted in [`OVERFLOW`].
#[cold]
#[inline(never)]
fn leave_slow(word: Word) {
    let is_shared = core::ptr::eq(word.cast(), tls::no_reader());
    let words = words(word);
    // Relaxed, here and below: the thread's own words, or constants.
    let value = words.first.load(Ordering::Relaxed);
    if !is_shared && word::is_reading(value) {
        let inside = words.second.load(Ordering::Relaxed);
        if inside & INSIDE == 0 {
            // Release pairs with the Acquire of the scan: the section is over. [R4]
            words.first.store(word::left(value), Ordering::Release);
        } else {
            words.second.store(inside - 1, Ordering::Relaxed);
        }
        return;
    }
    // Release pairs with the Acquire of the scan. Relaxed on failure: nothing was changed. [R4]
    let less = |count: u64| count.checked_sub(1);
    if OVERFLOW.fetch_update(Ordering::Release, Ordering::Relaxed, less).is_err() {
        report::die(format_args!("rcu: a read section is left that was not entered"));
    }
    tls::set_shared_sections(tls::shared_sections().saturating_sub(1));
}

/// True while the calling thread is inside a read section.
#[inline]
pub(crate) fn is_reading() -> bool {
    let word: Word = tls::reader().cast();
    // Relaxed: the thread's own word, or a constant.
    let value = words(word).first.load(Ordering::Relaxed);
    (word::is_reading(value) && value != u64::MAX) || tls::shared_sections() != 0
}

/// In builds with debug assertions: records where the outermost section was entered.
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
fn remember_place(word: Word) {
    if cfg!(debug_assertions) {
        let place = core::panic::Location::caller();
        // SAFETY: the word is the first field of a record; a section never begins in the constant.
        let record = unsafe { &*word.cast::<Record>() };
        // Relaxed: for a report, which reads constant memory through this pointer.
        record.entered.store(core::ptr::from_ref(place).cast_mut(), Ordering::Relaxed);
    }
}
