//! This layer as `sheaves-rcu` sees it: it stores deferred objects, and keeps unused memory.

use sheaves_rcu::defer::Pending;
use sheaves_rcu::internal::{self, LayerAbove};
use sheaves_sys::fault;
use sheaves_sys::membarrier::Reach;

use crate::deferred;
use crate::moves::release;
use crate::returning::{shrink, surplus, tick};
use crate::space::{chunk, limit};

struct Slab;

/// Makes this layer known, before the first cache exists.
pub(crate) fn register() {
    internal::register(&Slab);
}

impl LayerAbove for Slab {
    fn seal(&self) -> bool {
        deferred::seal_all()
    }

    fn reclaim(&self) -> bool {
        let any = deferred::reclaim_all();
        release::arm_reclaimer_if_pending();
        chunk::do_due_after_free();
        any
    }

    fn pending(&self) -> Pending {
        deferred::pending()
    }

    fn tick(&self, reach: Reach) -> bool {
        if reach == Reach::Interrupts {
            limit::read_again();
        }
        tick::tick(reach)
    }

    fn compact(&self) -> bool {
        tick::compact()
    }

    fn sweep(&self) {
        fault::put_handler_first();
        surplus::sweep();
    }

    fn trim(&self) {
        shrink::trim_in(0, Reach::Quiet);
    }

    fn name(&self) -> &'static str {
        "slab"
    }
}
