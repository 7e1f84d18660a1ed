//! What this crate does around `fork`.
//!
//! A word changes by one store, but the kernel copies one page after the other while other threads
//! run: an object that moves from one word to another meanwhile could be in the child twice, or a
//! reference be put there that was not taken. So before a fork all slots are frozen: other threads
//! go on without one, or wait for the slots lock. The kernel keeps the forking thread's rseq
//! registration in the child; the fence has to be registered anew there.
//!
//! A fork in a signal handler may find that its thread holds the slots lock already; then the slots
//! are in the middle of a change, which this thread completes on both sides.
//!
//! In a child whose fork has not prepared, words are thawed as if they had been frozen, so that a
//! word that a thread had checked out is as it was before. A reference count that was being killed
//! stays so.

use sheaves_sys::fork::{Handlers, Layer};

use crate::area::rows;
use crate::counter::FOLDING;
use crate::engine;
use crate::memory::state::{MEMORY, State};
use crate::percpu_ref::KILLING;
use crate::slots;

static HANDLERS: Handlers = Handlers { prepare, parent, child, recover };

pub(crate) fn announce() {
    sheaves_sys::fork::announce(Layer::PerCpu, &HANDLERS);
}

fn prepare() {
    FOLDING.acquire();
    KILLING.acquire();
    MEMORY.acquire();
    slots::SLOTS.acquire();
    if slots::SLOTS.is_held_for_fork() {
        slots::freeze();
    }
}

fn parent() {
    release(false);
}

fn child() {
    if engine::facts().fence {
        // A refusal here shows at the next drain, which then reports that it could not.
        let _ = sheaves_sys::membarrier::register_abort_sections();
    }
    release(true);
}

fn recover() {
    slots::SLOTS.acquire_to_recover(|()| rows::recover());
    MEMORY.acquire_to_recover(State::recover);
    // Both guard something that is done in steps, each of which leaves a valid state.
    KILLING.acquire();
    FOLDING.acquire();
}

fn release(is_child: bool) {
    if slots::SLOTS.is_held_for_fork() {
        slots::thaw(is_child);
    }
    // SAFETY: taken in `prepare` by the thread that forked, without a guard.
    unsafe { slots::SLOTS.release() };
    // SAFETY: as above.
    unsafe { MEMORY.release() };
    // SAFETY: as above.
    unsafe { KILLING.release() };
    // SAFETY: as above.
    unsafe { FOLDING.release() };
}
