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

use sheaves_sys::report;

use crate::descriptor::CacheId;
use crate::pool::{self, Sheaf, SheafStack};
use crate::slow::{self, is_empty, take_sheaf};
use crate::{debug, depot, flush};

/// Sheaves that are set aside.
const RESERVE_SHEAVES: u32 = 8;

static RESERVE: SheafStack = SheafStack::new();
/// How many of them were ever put there.
static RESERVED: AtomicU32 = AtomicU32::new(0);
/// Of so many requests for an empty sheaf one fails; 0 for none. For tests.
static FAIL_ONE_IN: AtomicU32 = AtomicU32::new(0);
static REQUESTS: AtomicU32 = AtomicU32::new(0);
/// How often each rung from 1 on was reached.
static REACHED: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

/// Makes one in so many requests for an empty sheaf fail, 0 for none. For tests.
#[doc(hidden)]
pub fn fail_one_in(requests: u32) {
    // Relaxed: a switch for tests.
    FAIL_ONE_IN.store(requests, Ordering::Relaxed);
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

/// True when this request is to fail, for a test.
fn fails() -> bool {
    // Relaxed, both: a switch for tests, and a count without meaning.
    let one_in = FAIL_ONE_IN.load(Ordering::Relaxed);
    one_in != 0 && REQUESTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(one_in)
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
    if !fails()
        && let Some(sheaf) = pool::take_empty()
    {
        return Some(sheaf);
    }
    take_empty_slow(id)
}

#[cold]
fn take_empty_slow(id: CacheId) -> Option<Sheaf> {
    if !fails()
        && let Some(sheaf) = of_the_cache(id)
    {
        reach(1);
        return Some(sheaf);
    }
    let sheaf = if fails() { None } else { RESERVE.pop() };
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
