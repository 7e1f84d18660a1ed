//! What deferring does when there is no memory for another sheaf.
//!
//! | rung | where the sheaf comes from | cost |
//! |---|---|---|
//! | 0 | the pool | none |
//! | 1 | the cache itself: a sheaf of free objects, which go back to their slabs | a flush |
//! | 2 | a few that were set aside | none |
//! | 3 | nowhere: the caller waits for readers and frees the object itself | a grace period |
//! | 4 | nowhere, and the caller reads: the object is never freed, with a line | the object |
//!
//! Nothing is ever freed too early.

use core::sync::atomic::{AtomicU32, Ordering};

use sheaves_rcu::defer::Faults;
use sheaves_sys::{lock, report};

use crate::descriptor::CacheId;
use crate::pool::{self, Sheaf, SheafStack};
use crate::slow::{self, is_empty, take_sheaf};
use crate::{debug, depot, flush};

/// Sheaves that are set aside.
const RESERVE_SHEAVES: u32 = 8;

static RESERVE: SheafStack = SheafStack::new();
/// How many are there, or were a moment ago.
static RESERVED: AtomicU32 = AtomicU32::new(0);
/// Requests for an empty sheaf that fail, for tests.
static FAULTS: Faults = Faults::none();
/// How often each rung from 1 on was reached.
static REACHED: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

/// Makes one in so many requests for an empty sheaf fail, 0 for none. For tests.
#[doc(hidden)]
pub fn fail_one_in(requests: u32) {
    FAULTS.fail_one_in(requests);
}

/// What deferring objects did without memory for another sheaf, by what it did then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Emergencies {
    /// Sheaves that were taken from their own cache, whose free objects went back to their slabs.
    pub from_the_cache: u32,
    /// Sheaves that had been set aside.
    pub from_the_reserve: u32,
    /// Objects for which the caller waited for readers itself.
    pub waits: u32,
    /// Objects that will never be freed: the caller was inside of a read section.
    pub leaks: u32,
}

/// How often deferring an object found no memory for another sheaf so far.
#[must_use]
pub fn emergencies() -> Emergencies {
    // Relaxed: statistics.
    let [from_the_cache, from_the_reserve, waits, leaks] =
        core::array::from_fn(|rung| REACHED[rung].load(Ordering::Relaxed));
    Emergencies { from_the_cache, from_the_reserve, waits: waits - leaks, leaks }
}

/// Counts that a rung was reached; how often it had been before.
fn reach(rung: usize) -> u32 {
    // Relaxed: statistics.
    REACHED[rung - 1].fetch_add(1, Ordering::Relaxed)
}

/// Sets sheaves aside, once, as far as there is memory.
pub(super) fn prepare() {
    // Relaxed: a number of sheaves, each of which comes by the stack.
    while RESERVED.load(Ordering::Relaxed) < RESERVE_SHEAVES {
        let Some(sheaf) = pool::take_empty() else { return };
        RESERVE.push(sheaf);
        // Relaxed: as above.
        RESERVED.fetch_add(1, Ordering::Relaxed);
    }
}

/// An empty sheaf, by whatever rung has one.
pub(super) fn take_empty(id: CacheId) -> Option<Sheaf> {
    if !FAULTS.fails()
        && let Some(sheaf) = pool::take_empty()
    {
        return Some(sheaf);
    }
    take_empty_slow(id)
}

#[cold]
fn take_empty_slow(id: CacheId) -> Option<Sheaf> {
    lock::assert_none_held();
    if !FAULTS.fails()
        && let Some(sheaf) = of_the_cache(id)
    {
        reach(1);
        return Some(sheaf);
    }
    let sheaf = if FAULTS.fails() { None } else { RESERVE.pop() };
    if sheaf.is_some() {
        reach(2);
        // Relaxed: as in `prepare`.
        RESERVED.fetch_sub(1, Ordering::Relaxed);
    }
    sheaf
}

/// A sheaf of the cache's own, whose free objects go back to their slabs.
fn of_the_cache(id: CacheId) -> Option<Sheaf> {
    let cursor = take_sheaf(id.frees(), |_| true)
        .or_else(|| take_sheaf(id.allocs(), |_| true))
        .or_else(|| depot::take_full(id))?;
    if !is_empty(cursor) {
        flush::flush_objects(id, cursor);
    }
    Some(Sheaf::of_cursor(cursor))
}

/// Frees an object for which no sheaf could be had.
#[cold]
pub(super) fn free(id: CacheId, object: usize) {
    reach(3);
    if !sheaves_rcu::is_reading() && sheaves_rcu::synchronize_expedited().is_ok() {
        if id.shape().debug {
            debug::free_deferred(id, object);
        } else {
            slow::free_slow(id, object);
        }
        return;
    }
    if reach(4) == 0 {
        let name = id.shape().name();
        report::report(format_args!(
            "out of memory inside a read section: objects are never freed, {object:#x} of cache \
             {name} is the first"
        ));
    }
}
