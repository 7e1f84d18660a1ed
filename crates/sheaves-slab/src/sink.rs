//! This layer as `sheaves-rcu` sees it: it stores deferred objects, and keeps unused memory.

use sheaves_rcu::defer::{self, Pending, Sink};

use crate::{chunk, deferred, keeper, limit, reclaim, refill};

struct Slab;

/// Makes this layer known, before the first cache exists.
pub(crate) fn register() {
    defer::register(&Slab);
}

impl Sink for Slab {
    fn seal(&self) -> bool {
        deferred::seal_all()
    }

    fn reclaim(&self) -> bool {
        let any = deferred::finish();
        refill::arm_reclaimer_if_pending();
        chunk::after_free();
        any
    }

    fn pending(&self) -> Pending {
        deferred::pending()
    }

    fn age(&self) -> bool {
        limit::read_again();
        keeper::age()
    }

    fn compact(&self) -> bool {
        keeper::compact()
    }

    fn return_all(&self) {
        reclaim::trim(0);
    }

    fn name(&self) -> &'static str {
        "slab"
    }
}
