//! The fallbacks of deferring when memory for another sheaf is out.
//!
//! Every round leaves a mapped extent with free sheaves, see `extents`. When these are used up:
//!
//! | an entry | what is done | cost |
//! |---|---|---|
//! | with a head | the head is linked, see `list` | a lock |
//! | without one | the caller waits for a grace period, and frees | a grace period |
//! | without one, in a read section | it is never freed, which is reported | the memory |
//!
//! In the handlers of a fork, which hold all locks, readers may wait for the caller: it waits for
//! them for [`MOMENTS`] at most.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::{fork, report, thread};

use crate::grace::cookie::{Cookie, synchronize_expedited};
use crate::reader::section;

pub(crate) static LINKED: AtomicU64 = AtomicU64::new(0);
pub(crate) static WAITS: AtomicU64 = AtomicU64::new(0);
pub(crate) static LEAKS: AtomicU64 = AtomicU64::new(0);

/// How often deferring had to fall back because memory was out, by fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Emergencies {
    /// Heads that were linked.
    pub linked: u64,
    /// Objects for which the caller waited for a grace period itself.
    pub waits: u64,
    /// Objects that will never be freed: the caller was inside a read section, or in a handler of
    /// a fork.
    pub leaks: u64,
}

pub(crate) fn emergencies() -> Emergencies {
    // Relaxed: statistics.
    let [linked, waits, leaks] =
        [&LINKED, &WAITS, &LEAKS].map(|count| count.load(Ordering::Relaxed));
    Emergencies { linked, waits, leaks }
}

/// How often a handler of a fork looks for the end of a grace period, and the time between.
const MOMENTS: u32 = 100;
const MOMENT_NS: u64 = 100_000;

/// Frees an object that cannot be deferred because memory is out: after a grace period, which this
/// waits for. Where that would deadlock the object leaks, and the first one is reported. Counts
/// which of the two it was.
#[cold]
pub fn free_without_memory(
    object: fmt::Arguments<'_>,
    [waits, leaks]: [&AtomicU64; 2],
    free: impl FnOnce(),
) {
    // Relaxed, both: statistics.
    if !section::is_reading() && wait() {
        waits.fetch_add(1, Ordering::Relaxed);
        free();
    } else if leaks.fetch_add(1, Ordering::Relaxed) == 0 {
        report::report(format_args!(
            "out of memory where no grace period may be waited for, in a read section or a handler \
             of a fork: objects are never freed, {object} is the first"
        ));
    }
}

fn wait() -> bool {
    if !fork::is_in_progress_here() {
        return synchronize_expedited().is_ok();
    }
    let cookie = Cookie::get();
    (0..MOMENTS).any(|_| {
        cookie.start_expedited();
        cookie.has_passed() || {
            thread::sleep_ns(MOMENT_NS);
            false
        }
    })
}
