//! Fork handlers of this crate.
//!
//! Other threads go on using their slots during a fork: a word changes by one store, and the child
//! has each of them at one of its instructions ([`sheaves_sys::fork`]). A transaction of the rseq
//! engine that had not committed has not happened; a word of the portable engine that was checked
//! out is as before. The child keeps the registrations of the forking thread for rseq, and of the
//! process for membarrier.
//!
//! A fork in a signal handler may find that its thread already holds the slots lock: the handler
//! has interrupted a drain, which this thread completes in both processes.

use sheaves_sys::fork::{Handlers, Layer};
use sheaves_sys::lock::Lock;

use crate::memory::state::MEMORY;
use crate::slots;

/// Held while a counter's share is moved to the total and while a thread sums, so that no sum
/// misses a share that is being moved. Only a fork holds the memory lock as well.
pub(crate) static FOLDING: Lock<()> = Lock::new(());
/// Held while a reference count changes from alive to killed or back. A fork takes it, so that no
/// child inherits a half-finished change that no thread of it would complete.
pub(crate) static KILLING: Lock<()> = Lock::new(());

static HANDLERS: Handlers = Handlers { prepare, parent: release, child };
sheaves_sys::fork_locks!(FOLDING, KILLING, MEMORY, slots::SLOTS);

pub(crate) fn announce() {
    sheaves_sys::fork::announce(Layer::PerCpu, &HANDLERS);
}

fn child() {
    slots::start_child();
    release();
}
