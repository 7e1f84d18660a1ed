//! Makes requests for memory fail, so that tests reach every rung of the emergency ladder.

use core::sync::atomic::{AtomicU32, Ordering};

/// Of so many requests one fails; 0 for none.
static ONE_IN: AtomicU32 = AtomicU32::new(0);
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Makes one in so many requests for memory fail: 0 for none, 1 for all. For tests.
#[doc(hidden)]
pub fn fail_one_in(requests: u32) {
    // Relaxed: a switch for tests.
    ONE_IN.store(requests, Ordering::Relaxed);
}

/// True when this request is to fail.
pub(super) fn fails() -> bool {
    // Relaxed, both: a switch for tests, and a count without meaning.
    let one_in = ONE_IN.load(Ordering::Relaxed);
    one_in != 0 && REQUESTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(one_in)
}
