//! Read sections of the default domain: entering and leaving.
//!
//! Neither has an atomic read-modify-write instruction, nor a fence of the processor: what orders a
//! reader is the membarrier of the grace period, which acts as a fence in every thread, at a point
//! that the reader does not know. So all a reader has to see to is that the compiler leaves its
//! steps in order. Where membarrier is refused the word carries a bit that leads both fast paths
//! to the slow half, which fences. See `grace` for the proof.
//!
//! In signal handlers a section works at every instruction. What a handler enters it leaves, so the
//! words tell the interrupted thread the same as before: whatever it has read of them still holds,
//! or is older and makes a grace period wait longer. And a nested section does all that the
//! outermost one does but for the store, so a handler relies on nothing that the section around it
//! has still to do: it finds the word stored, or stores it, and fences itself where the word says
//! so. The test `handlers` interrupts every instruction.

use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

use sheaves_sys::{report, tls};

use crate::registry::{self, OVERFLOW, Record};
use crate::word::{self, FENCED, FIRST, IDLE, INSIDE};

/// What an outermost section copies to its word. Alone on its line, which is read all the time and
/// written to once for each grace period, by its leader.
#[repr(align(128))]
pub(crate) struct Global(pub(crate) AtomicU64);

pub(crate) static GLOBAL: Global = Global(AtomicU64::new(FIRST));

/// The first word of the thread of an open section, to leave it by.
pub(crate) type Word = *const AtomicU64;

/// The two words of a thread, see [`crate::word`].
#[repr(C)]
struct Words {
    first: AtomicU64,
    second: AtomicU64,
}

/// The words of which a thread's pointer points to the first.
#[inline(always)]
fn words(word: Word) -> &'static Words {
    // SAFETY: records and the constant begin with both, and are never unmapped; all access to them
    // is atomic.
    unsafe { &*word.cast::<Words>() }
}

/// Enters a section. Never blocks; async-signal-safe.
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn enter() -> Word {
    let word: Word = tls::reader().cast();
    let place = &words(word).first;
    // Relaxed, both: only this thread writes the word. The sequence may be an old one, then a grace
    // period waits longer.
    if place.load(Ordering::Relaxed) == IDLE {
        let global = GLOBAL.0.load(Ordering::Relaxed);
        // Release pairs with the Acquire of the scan: the section before this one is over. [R4]
        place.store(global, Ordering::Release);
        remember_place(word);
        // SeqCst, for the compiler alone: the section stays behind the store. The membarrier of
        // the grace period pairs with it. [R3]
        compiler_fence(Ordering::SeqCst);
        word
    } else {
        enter_slow()
    }
}

/// Leaves a section, whichever of those that are open in this thread. Never blocks;
/// async-signal-safe.
///
/// # Safety
/// `word` is what an `enter` of this thread has returned that is not left yet.
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
/// There is one.
#[inline(always)]
pub(crate) unsafe fn leave_innermost() {
    let word: Word = tls::reader().cast();
    let words = words(word);
    // Relaxed, both: the thread's own words. Where it got them after the section began, the section
    // is counted elsewhere, and the first word knows of none.
    let is_only = words.second.load(Ordering::Relaxed) == 0;
    if is_only && word::is_reading(words.first.load(Ordering::Relaxed)) {
        // Release pairs with the Acquire of the scan: the section is over. [R4]
        words.first.store(IDLE, Ordering::Release);
    } else {
        leave_slow(word);
    }
}

/// The first section of a thread, one inside another, or one that has to fence.
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
        // SeqCst pairs with the heavy fence: a grace period counts us, or we see what it unlinked.
        // [R2]
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
        // may be that of a signal handler between the outermost section's store and its fence. [R2]
        fence(Ordering::SeqCst);
    }
    // SeqCst, for the compiler alone, as in `enter`. [R3]
    compiler_fence(Ordering::SeqCst);
    word
}

/// A count that began again at 0 would end all sections with the next one that is left.
#[cold]
fn die_of_sections() -> ! {
    report::die(format_args!("rcu: a thread has 4294967296 open read sections: guards are leaked"));
}

/// Not the outermost section, or one that fences, or one that was counted in [`OVERFLOW`].
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

/// True while the calling thread is inside a section.
#[inline]
pub(crate) fn is_reading() -> bool {
    let word: Word = tls::reader().cast();
    // Relaxed: the thread's own word, or a constant.
    let value = words(word).first.load(Ordering::Relaxed);
    (word::is_reading(value) && value != u64::MAX) || tls::shared_sections() != 0
}

/// In builds with debug assertions: notes where the outermost section was entered.
#[inline(always)]
#[cfg_attr(debug_assertions, track_caller)]
fn remember_place(word: Word) {
    if cfg!(debug_assertions) {
        let place = core::panic::Location::caller();
        // SAFETY: the word is in a record, at its beginning; the constant is never entered.
        let record = unsafe { &*word.cast::<Record>() };
        // Relaxed: for a report, which reads constant memory through it.
        record.entered.store(core::ptr::from_ref(place).cast_mut(), Ordering::Relaxed);
    }
}
