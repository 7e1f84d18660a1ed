//! Fork handling of deferred reclamation, called by the crate's handlers.
//!
//! The order of the locks: registration of sinks and channels, channels, calls, memory. A fork does
//! not wait for the driver, see `driver`. Everything that is pending is pending in the child, too,
//! except the one callback that another thread was running. If the fork ran no `prepare` handler,
//! heads are lost that were linked in a shard which another thread was changing.

use super::pool::{BLOCKS, SHEAVES};
use super::{calls, channel, driver, pressure, reclaimer, sink, workers};

pub(crate) fn acquire() {
    sink::REGISTERING.acquire();
    channel::acquire();
    calls::acquire();
    SHEAVES.acquire();
    BLOCKS.acquire();
}

/// [`acquire`] in the child of a fork that ran no `prepare` handler. What is pending is counted
/// again; the layers above do the same.
pub(crate) fn recover() {
    pressure::restart();
    SHEAVES.recover();
    BLOCKS.recover();
    calls::recover();
    channel::recover();
    // A sink, or a channel, has been added or it has not.
    sink::REGISTERING.acquire();
}

/// # Safety
/// After [`acquire`] in the thread that forked, in parent or child.
pub(crate) unsafe fn release() {
    // SAFETY: the same contract, here and below.
    unsafe { BLOCKS.release() };
    // SAFETY: as above.
    unsafe { SHEAVES.release() };
    // SAFETY: as above.
    unsafe { calls::release() };
    // SAFETY: as above.
    unsafe { channel::release() };
    // SAFETY: as above.
    unsafe { sink::REGISTERING.release() };
}

pub(crate) fn restart_in_child() {
    let was_worker = workers::restart_in_child();
    driver::restart_in_child(was_worker);
    reclaimer::restart_in_child(was_worker);
}
