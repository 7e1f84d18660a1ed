//! Deferring without memory for another sheaf: the fallbacks, tried in this order.
//!
//! | rung | where the sheaf comes from | cost |
//! |---|---|---|
//! | 0 | the pool | none |
//! | 1 | the cache itself: a sheaf of free objects, which go back to their slabs | a flush |
//! | 2 | none: the caller waits for a grace period and frees the object itself | a grace period |
//! | 3 | none, and the caller may not wait: the object leaks, and a line reports it | the object |
//!
//! Nothing is ever freed too early.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_percpu::internal::Sheaf;
#[cfg(feature = "faults")]
use sheaves_rcu::internal::faults::Faults;
use sheaves_rcu::internal::queue;
use sheaves_sys::lock;

use crate::checked::incoming;
use crate::moves::slot::take_untagged;
use crate::moves::{flush, tags};
use crate::parts::pool;
use crate::space::cache_id::CacheId;
use crate::space::chunk;

/// Requests for an empty sheaf that fail, for tests.
#[cfg(feature = "faults")]
#[doc(hidden)]
pub static FAULTS: Faults = Faults::none();
/// How often each rung was used.
static FROM_THE_CACHE: AtomicU64 = AtomicU64::new(0);
static WAITS: AtomicU64 = AtomicU64::new(0);
static LEAKS: AtomicU64 = AtomicU64::new(0);

/// True if a request for an empty sheaf is to fail, in builds with the feature `faults` only.
fn fails() -> bool {
    #[cfg(feature = "faults")]
    return FAULTS.fails();
    #[cfg(not(feature = "faults"))]
    false
}

/// How often deferring objects found no memory for another sheaf, by the fallback that it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Emergencies {
    /// Sheaves that were taken from their own cache; their free objects went back to their slabs.
    pub from_the_cache: u32,
    /// Objects for which the caller waited for a grace period itself.
    pub waits: u32,
    /// Objects that are never freed: the caller was inside of a read section, or in a handler of a
    /// fork.
    pub leaks: u32,
}

/// How often deferring an object has found no memory for another sheaf so far.
#[must_use]
pub fn emergencies() -> Emergencies {
    // Relaxed: statistics.
    let [from_the_cache, waits, leaks] =
        [&FROM_THE_CACHE, &WAITS, &LEAKS].map(|count| count.load(Ordering::Relaxed) as u32);
    Emergencies { from_the_cache, waits, leaks }
}

/// An empty sheaf, from the first rung that has one.
pub(super) fn take_empty(id: CacheId) -> Option<Sheaf> {
    let sheaf = if fails() { None } else { pool::take_empty() };
    sheaf.or_else(|| of_the_cache(id))
}

/// A sheaf of the cache itself; its free objects go back to their slabs.
#[cold]
fn of_the_cache(id: CacheId) -> Option<Sheaf> {
    lock::assert_none_held();
    if fails() || !id.shape().is_plain() {
        return None;
    }
    let cursor = take_untagged(id, id.spare(), |_| true)
        .or_else(|| take_untagged(id, id.main(), |_| true))
        .or_else(|| id.take_full())?;
    flush::flush_objects(id, cursor);
    // Relaxed: statistics.
    FROM_THE_CACHE.fetch_add(1, Ordering::Relaxed);
    Some(cursor.sheaf())
}

/// Frees an object for which there is no sheaf.
pub(super) fn free(id: CacheId, object: usize) {
    let name = id.shape().name();
    queue::free_without_memory(
        format_args!("{object:#x} of cache {name}"),
        [&WAITS, &LEAKS],
        || {
            let mut one = [object];
            tags::close_deferred(id, &mut one);
            incoming::reclaimed_one(id, one[0]);
            chunk::do_due_after_free();
        },
    );
}
