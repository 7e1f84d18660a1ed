//! What this crate does around `fork`.
//!
//! Nothing is waited for before a fork: a leader may wait for a reader that is the very thread that
//! forks. What the lead guards is made consistent in the child instead: a grace period that was
//! under way begins anew with its number, which is always permitted. The other threads' records
//! become free there, their sections with them; those of the forking thread stay open.
//!
//! Sleepers, the thread that wakes futures, and the reclaimer, are not in the child. The threads
//! are started again when they are needed; see `defer::fork` for what is pending.

use sheaves_sys::fork::{Handlers, Layer};

use crate::{defer, grace, later, mode, registry, srcu, stall};

static HANDLERS: Handlers = Handlers { prepare, parent, child, recover };
sheaves_sys::announce_when_loaded!(Rcu, &HANDLERS);

/// The same again, for whoever uses this crate first: a linker takes no part of an archive to which
/// nothing leads, constructors or not.
pub(crate) fn announce() {
    sheaves_sys::fork::announce(Layer::Rcu, &HANDLERS);
}

fn prepare() {
    later::acquire();
    defer::fork::acquire();
}

fn recover() {
    defer::fork::recover();
    // The child has a list of its own.
    later::acquire();
}

fn parent() {
    // SAFETY: acquired in `prepare`, by the thread that forked.
    unsafe { defer::fork::release() };
    later::release();
}

fn child() {
    let readers_fence = mode::restart_in_child();
    registry::restart_in_child(readers_fence);
    srcu::restart_in_child(readers_fence);
    grace::restart_in_child();
    stall::restart_in_child();
    defer::fork::restart_in_child();
    // SAFETY: acquired in `prepare`, by the thread that forked.
    unsafe { defer::fork::release() };
    later::restart_in_child();
    later::release();
}
