//! Fork handlers of this crate.
//!
//! A word changes by one store, but the kernel copies the pages one after the other while other
//! threads run. So an object that moves from one word to another during the copy could be in the
//! child twice, and a reference could be put there without having been taken. A fork therefore
//! first freezes all slots: other threads continue without a slot, or wait for the slots lock. The
//! child keeps the registrations of the forking thread for rseq, and of the process for membarrier.
//!
//! A fork in a signal handler may find that its thread already holds the slots lock: the handler
//! has interrupted a drain, which this thread completes in both processes. The slots are frozen
//! then, too, and after the fork they are as the drain has left them.
//!
//! If the fork was not prepared, the child thaws the words as if they had been frozen, so a word
//! that a thread had checked out is as it was before. A reference count that was being killed stays
//! in that state.

use sheaves_sys::fork::{Handlers, Layer};
use sheaves_sys::lock::Lock;

use crate::memory::state::{MEMORY, State};
use crate::{rows, slots};

/// Held while a counter's share is moved to the total and while a thread sums, so that no sum
/// misses a share that is being moved. Only a fork holds the memory lock as well.
pub(crate) static FOLDING: Lock<()> = Lock::new(());
/// Held while a reference count changes from alive to killed or back. A fork takes it, so that no
/// child inherits a half-finished change that no thread of it would complete.
pub(crate) static KILLING: Lock<()> = Lock::new(());

static HANDLERS: Handlers = Handlers { prepare, parent, child, recover };

pub(crate) fn announce() {
    sheaves_sys::fork::announce(Layer::PerCpu, &HANDLERS);
}

fn prepare() {
    FOLDING.acquire();
    KILLING.acquire();
    MEMORY.acquire();
    slots::SLOTS.acquire();
    slots::freeze();
}

fn parent() {
    release(false);
}

fn child() {
    release(true);
}

fn recover() {
    slots::SLOTS.acquire_to_recover(|()| rows::recover());
    MEMORY.acquire_to_recover(State::recover);
    // Both guard operations of several steps, each of which leaves a valid state.
    KILLING.acquire();
    FOLDING.acquire();
}

fn release(is_child: bool) {
    slots::thaw(is_child);
    // SAFETY: acquired in `prepare` by the forking thread, without a guard.
    unsafe { slots::SLOTS.release() };
    // SAFETY: as above.
    unsafe { MEMORY.release() };
    // SAFETY: as above.
    unsafe { KILLING.release() };
    // SAFETY: as above.
    unsafe { FOLDING.release() };
}
