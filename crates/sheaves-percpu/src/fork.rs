//! What this crate does around `fork`.
//!
//! Words change by one store each, so a child always sees consistent ones; with the portable
//! engine a word may be checked out, so the parent checks out all of them itself before it forks
//! and both sides check them in again. The kernel keeps the forking thread's rseq registration
//! in the child; the fence has to be registered anew there.

use sheaves_sys::fork::{Handlers, Layer};

use crate::counter::FOLDING;
use crate::engine::{self, Mode};
use crate::memory::state::MEMORY;
use crate::slots;

static HANDLERS: Handlers = Handlers { prepare, parent, child };

pub(crate) fn announce() {
    sheaves_sys::fork::announce(Layer::PerCpu, &HANDLERS);
}

fn prepare() {
    FOLDING.acquire();
    MEMORY.acquire();
    slots::SLOTS.acquire();
    if engine::mode() == Mode::Portable {
        engine::check_out_all(slots::ready_words(), slots::installed_indexes());
    }
}

fn parent() {
    release();
}

fn child() {
    if engine::facts().fence {
        // A refusal here shows at the next drain, which then reports that it could not.
        let _ = sheaves_sys::membarrier::register_abort_sections();
    }
    release();
}

fn release() {
    if engine::mode() == Mode::Portable {
        engine::check_in_all(slots::ready_words(), slots::installed_indexes());
    }
    // SAFETY: taken in `prepare` by the thread that forked, without a guard.
    unsafe { slots::SLOTS.release() };
    // SAFETY: as above.
    unsafe { MEMORY.release() };
    // SAFETY: as above.
    unsafe { FOLDING.release() };
}
