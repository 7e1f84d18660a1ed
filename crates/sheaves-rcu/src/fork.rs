//! Fork handlers of this crate.
//!
//! `prepare` does not wait for the leader: it may wait for a reader, and this reader may be the
//! very thread that forks. Instead the child repairs what the lead protects: a grace period that
//! was under way begins again with its number, which is always permitted. In the child the records
//! of the other threads are freed, and with them their sections; sections of the forking thread
//! stay open.
//!
//! Sleepers, the waker thread and the reclaimer do not exist in the child. The threads are started
//! again when they are needed; `defer::fork` handles what is pending.

use sheaves_sys::fork::{Handlers, Layer};

use crate::{defer, grace, later, mode, registry, srcu, stall};

static HANDLERS: Handlers = Handlers { prepare, parent, child, recover };
sheaves_sys::announce_when_loaded!(Rcu, &HANDLERS);

/// Announces the handlers at the first use of this crate, too: a linker takes only those members of
/// an archive that something refers to, constructors or not.
pub(crate) fn announce() {
    sheaves_sys::fork::announce(Layer::Rcu, &HANDLERS);
}

fn prepare() {
    later::acquire();
    defer::fork::acquire();
}

fn recover() {
    defer::fork::recover();
    // The child has its own list.
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
