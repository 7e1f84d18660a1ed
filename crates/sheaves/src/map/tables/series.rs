//! Series of tables, which `clear` takes out of the map as a whole.
//!
//! The first insertion makes a table, and a resize another one after it: these are a series, and it
//! counts the entries in them. `clear` exchanges the map's table for none. So the series is over:
//! calls that begin later find no table, and the next insertion begins another series.
//!
//! A thread that has found the table before that continues in it, also to insert, move and remove
//! entries, until its read section ends. What it does there has happened before the exchange, in
//! the order of the locks of the chains: its call began before that, and no later call sees it.
//! After a grace period nothing uses the series, and a deferred callback ends what is left in it.
//! Readers keep what they have found until then, as when an entry is removed.
//!
//! # Invariants
//! A table belongs to one series. A change is counted in the series of the table that it changes,
//! in the same read section. From the table of the map, and from one that was exchanged, the tables
//! of its series that are not retired can be reached: `finish` retires one only if it exchanges it
//! for the next one itself.

use core::ptr::null_mut;

use sheaves_heap as heap;
use sheaves_rcu::defer::{Head, call_rcu};
use sheaves_rcu::internal::{pressure, wake_if_pressed};

use super::bucket::{Bucket, Place, retire_overflow};
use super::lock::MOVED;
use super::table::{Series, Table};

/// Frees a series and its tables now; `each` gets what is in them, which nothing uses any more.
///
/// # Safety
/// The table is from [`Series::begin`], or has become the map's after that. It is in no map any
/// more, and no thread uses it.
pub(in crate::map) unsafe fn end<P: Place>(
    mut table: *mut Table<P>,
    mut each: impl FnMut(P::Content),
) {
    // SAFETY: the caller's contract.
    let series = unsafe { (*table).series };
    // SAFETY: null, or a table of the series, which no other thread uses.
    while let Some(current) = unsafe { table.as_ref() } {
        // SAFETY: tables are not freed while they can be reached.
        let next = unsafe { current.next() };
        let units = current.units(next.unwrap_or(current));
        // Without locks: one may be orphaned, as `resize` says.
        for unit in 0..units {
            if current.bucket(unit as u64).word() & MOVED != 0 {
                continue;
            }
            for first in current.chains(unit, units) {
                // SAFETY: no other thread knows the chain, which is valid until freed below.
                unsafe { first.for_each(first.word(), |content, _| each(content)) };
                // SAFETY: as above.
                unsafe { retire_overflow(first) };
            }
            if let Some(next) = next {
                // SAFETY: as above; the unit has not moved.
                unsafe { next.clear(unit, units) };
            }
        }
        // SAFETY: from `Table::new`, and not used any more.
        unsafe { heap::free(table.cast()) };
        table = next.map_or(null_mut(), Table::pointer);
    }
    // SAFETY: its tables are freed, and nothing else leads to it.
    unsafe { Series::free(series) };
}

/// Ends a series and the entries in it after a grace period, in a deferred callback. Costs as much
/// for many entries as for few.
///
/// # Safety
/// The caller has exchanged this table in its map. The entries have no destructor, or may be
/// dropped in any thread, at any time.
pub(in crate::map) unsafe fn retire<P: Place>(table: *mut Table<P>) {
    // SAFETY: not freed before the callback.
    let current = unsafe { &*table };
    let series = current.series;
    let bytes = current.buckets() * Bucket::<P>::BYTES + current.len() * P::ENTRY_BYTES;
    // SAFETY: as above; this thread alone writes it, and others use the counter only.
    unsafe { (*series).ending = (table, bytes) };
    pressure::note_sealed(0, bytes);
    wake_if_pressed();
    // SAFETY: an idle head at the start of its block, which is freed in the callback; the entries
    // are as the caller promises.
    unsafe { call_rcu(series.cast(), end_retired::<P>) };
}

/// The callback of [`retire`].
unsafe extern "C" fn end_retired<P: Place>(head: *mut Head) {
    let series = head.cast::<Series<P>>();
    // SAFETY: the head starts the block of a series that was retired.
    let (table, bytes) = unsafe { (*series).ending };
    // First: a child of a fork in the middle does not go on with it.
    pressure::note_reclaimed(0, bytes);
    // Dropped last.
    let mut entries = P::unlinked();
    // SAFETY: from the series, and nothing uses it any more.
    let add = |content| unsafe { P::unlink(content, &mut entries) };
    // SAFETY: exchanged in its map before the grace period that has passed, so no thread uses it.
    unsafe { end(table, add) };
    drop(entries);
}

#[cfg(test)]
#[path = "../../../tests/unit/map_series.rs"]
mod tests;
