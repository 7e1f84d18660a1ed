//! What this module does around `fork`, called by the crate's handlers.
//!
//! Locks from the top down: who may become known, channels, calls, memory. Who drives is not waited
//! for, see `driver`. Everything that is pending is pending in the child, too, but for the one call
//! that another thread was in. In a child whose fork has not prepared, heads that are linked in a
//! shard that another thread was changing are lost as well.

use super::pool::{BLOCKS, SHEAVES};
use super::{calls, channel, driver, pressure, reclaimer, sink, workers};

pub(crate) fn acquire() {
    sink::REGISTERING.acquire();
    channel::acquire();
    calls::acquire();
    SHEAVES.acquire();
    BLOCKS.acquire();
}

/// [`acquire`] in a child whose fork has not prepared. What is pending is counted again: layers
/// above do the same.
pub(crate) fn recover() {
    pressure::restart();
    SHEAVES.recover();
    BLOCKS.recover();
    calls::recover();
    channel::recover();
    // A sink, or a channel, is known or not.
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
