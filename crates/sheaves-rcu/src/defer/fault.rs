//! Makes requests for memory fail, so that tests reach every rung of the emergency ladders in this
//! layer and in the layers above.

use core::sync::atomic::{AtomicU32, Ordering};

/// A switch that makes one in `one_in` requests fail. For tests.
#[doc(hidden)]
#[derive(Debug)]
pub struct Faults {
    /// One in this many requests fails; 0 for none.
    one_in: AtomicU32,
    requests: AtomicU32,
}

impl Faults {
    /// No request fails.
    #[must_use]
    pub const fn none() -> Faults {
        Faults { one_in: AtomicU32::new(0), requests: AtomicU32::new(0) }
    }

    /// Makes one in `requests` requests fail: 0 for none, 1 for all.
    pub fn fail_one_in(&self, requests: u32) {
        // Relaxed: a switch for tests.
        self.one_in.store(requests, Ordering::Relaxed);
    }

    /// True when this request is to fail.
    pub fn fails(&self) -> bool {
        // Relaxed, both: a switch for tests, and a count without meaning.
        let one_in = self.one_in.load(Ordering::Relaxed);
        one_in != 0 && self.requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(one_in)
    }
}

/// The requests for memory of this layer.
pub(super) static FAULTS: Faults = Faults::none();

/// Makes one in `requests` requests for memory fail: 0 for none, 1 for all. For tests.
#[doc(hidden)]
pub fn fail_one_in(requests: u32) {
    FAULTS.fail_one_in(requests);
}
