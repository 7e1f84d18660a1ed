//! Makes requests for memory fail, so that tests reach every fallback, here and in the layers
//! above. In builds with the feature `faults` only.

use core::sync::atomic::{AtomicU32, Ordering};

/// Makes one in some number of requests fail.
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
        // Relaxed: a switch.
        self.one_in.store(requests, Ordering::Relaxed);
    }

    /// True if this request is to fail.
    pub fn fails(&self) -> bool {
        // Relaxed, both: a switch, and a count without meaning.
        let one_in = self.one_in.load(Ordering::Relaxed);
        one_in != 0 && self.requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(one_in)
    }
}

/// The requests for memory of this layer.
pub static FAULTS: Faults = Faults::none();
