//! The fallbacks of deferring when memory for another sheaf is out.
//!
//! | rung | what is done | cost |
//! |---|---|---|
//! | 0 | a sheaf from `extents` | none |
//! | 1 | a reserved sheaf | none |
//! | 2 | the head in the object is linked | its entry is not beside others in memory |
//! | 3 | no head: the caller waits for a grace period, and frees | a grace period |
//! | 4 | no head, inside a read section: leaked, with a report | the memory |
//!
//! Deferred callbacks have a head, and use rungs 0 and 2 only. Nothing is ever freed too early.

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sheaves_percpu::internal::Sheaf;
use sheaves_sys::report;

use super::extents::SHEAVES;
use crate::grace::cookie::synchronize_expedited;
use crate::reader::section;

/// How often each rung was used.
static RESERVED: AtomicU64 = AtomicU64::new(0);
static LINKED: AtomicU64 = AtomicU64::new(0);
static WAITS: AtomicU64 = AtomicU64::new(0);
static LEAKS: AtomicU64 = AtomicU64::new(0);

/// Number of reserved sheaves. They are static data, so they always exist.
const SHEAVES_RESERVED: usize = 16;

#[repr(C, align(1024))]
struct Reserve([UnsafeCell<[u8; Sheaf::BYTES]>; SHEAVES_RESERVED]);

// SAFETY: a sheaf belongs to the thread that has set its bit in `TAKEN`.
unsafe impl Sync for Reserve {}

static RESERVE: Reserve = Reserve([const { UnsafeCell::new([0; Sheaf::BYTES]) }; SHEAVES_RESERVED]);
/// One bit for each reserved sheaf that is in use.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// How often deferring had to fall back because memory was out, by fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Emergencies {
    /// Reserved sheaves that were used.
    pub from_the_reserve: u64,
    /// Heads that were linked.
    pub linked: u64,
    /// Objects for which the caller waited for a grace period itself.
    pub waits: u64,
    /// Objects that will never be freed: the caller was inside a read section.
    pub leaks: u64,
}

pub(super) fn emergencies() -> Emergencies {
    // Relaxed: statistics.
    let [from_the_reserve, linked, waits, leaks] =
        [&RESERVED, &LINKED, &WAITS, &LEAKS].map(|count| count.load(Ordering::Relaxed));
    Emergencies { from_the_reserve, linked, waits, leaks }
}

/// Counts a head that is linked because memory is out.
pub(super) fn note_linked() {
    // Relaxed: statistics.
    LINKED.fetch_add(1, Ordering::Relaxed);
}

/// Frees an object of a channel by rung 3, or leaks it.
pub(super) fn free(object: fmt::Arguments<'_>, free: impl FnOnce()) {
    free_without_memory(object, [&WAITS, &LEAKS], free);
}

/// Frees an object that cannot be deferred because memory is out: after a grace period, which this
/// waits for. Inside a read section that would deadlock: the object leaks, and the first one is
/// reported. Counts which of the two it was.
#[cold]
pub fn free_without_memory(
    object: fmt::Arguments<'_>,
    [waits, leaks]: [&AtomicU64; 2],
    free: impl FnOnce(),
) {
    // Relaxed, both: statistics.
    if !section::is_reading() && synchronize_expedited().is_ok() {
        waits.fetch_add(1, Ordering::Relaxed);
        free();
    } else if leaks.fetch_add(1, Ordering::Relaxed) == 0 {
        report::report(format_args!(
            "out of memory inside a read section: objects are never freed, {object} is the first"
        ));
    }
}

/// A sheaf, from rung 0 or 1.
pub(super) fn take_sheaf() -> Option<Sheaf> {
    SHEAVES.take().or_else(take_reserved)
}

#[cold]
fn take_reserved() -> Option<Sheaf> {
    #[cfg(feature = "faults")]
    if super::faults::FAULTS.fails() {
        return None;
    }
    let free = |taken: u32| {
        let bit = taken.trailing_ones();
        (bit < SHEAVES_RESERVED as u32).then_some(taken | (1 << bit))
    };
    // Acquire pairs with the Release in `give_sheaf`: its last owner is done with it. Relaxed on
    // failure: nothing is taken. [E1]
    let before = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, free).ok()?;
    // Relaxed: statistics.
    RESERVED.fetch_add(1, Ordering::Relaxed);
    let sheaf = RESERVE.0[before.trailing_ones() as usize].get();
    // SAFETY: aligned static memory of a sheaf's size.
    Some(unsafe { Sheaf::at(sheaf.expose_provenance()) })
}

/// Returns a sheaf.
///
/// # Safety
/// It came from [`take_sheaf`], and is not used any more.
pub(super) unsafe fn give_sheaf(sheaf: Sheaf) {
    let reserve = (&raw const RESERVE).addr();
    match sheaf.address().checked_sub(reserve) {
        Some(offset) if offset < size_of::<Reserve>() => {
            // Release pairs with the Acquire in `take_reserved`. [E1]
            TAKEN.fetch_and(!(1 << (offset / Sheaf::BYTES)), Ordering::Release);
        }
        // SAFETY: not from the reserve, so from `extents`.
        _ => unsafe { SHEAVES.give(sheaf) },
    }
}

const _: () = assert!(size_of::<Reserve>() == SHEAVES_RESERVED * Sheaf::BYTES);
