//! The locks of this crate in forks.

use sheaves_sys::{announce_when_loaded, fork};

use crate::checked::quarantine;
use crate::deferred;
use crate::moves::registry;
use crate::moves::registry::REGISTRY;
use crate::parts::pool::POOL;
use crate::parts::slab_lists;
use crate::records::profile::PROFILE;
use crate::space::chunk::CHUNKS;
use crate::space::{chunk, limit};

static HANDLERS: fork::Handlers =
    fork::Handlers { prepare: lock_all, parent: unlock_in_parent, child: unlock_in_child };
announce_when_loaded!(Slab, &HANDLERS);

/// Announces the handlers again, when a cache is created. Without a function that others call, a
/// linker leaves this file's code out of a program that links a static library.
pub(crate) fn announce() {
    fork::announce(fork::Layer::Slab, &HANDLERS);
}

/// Before a fork: registry, every cache (slabs, deferred, quarantine), chunks, pool, profile, in
/// this order everywhere.
fn lock_all() {
    REGISTRY.acquire();
    for id in registry::all_ids() {
        id.descriptor().slabs.acquire();
        id.queues().iter().for_each(|queue| queue.waiting.acquire());
        quarantine::of(id).fifo.acquire();
    }
    CHUNKS.acquire();
    POOL.acquire();
    PROFILE.acquire();
}

fn unlock_all() {
    // SAFETY: taken in `lock_all` by the thread that forked, without guards.
    unsafe { PROFILE.release() };
    // SAFETY: as above.
    unsafe { POOL.release() };
    // SAFETY: as above.
    unsafe { CHUNKS.release() };
    for id in registry::all_ids() {
        // SAFETY: as above.
        unsafe { quarantine::of(id).fifo.release() };
        for queue in id.queues() {
            // SAFETY: as above.
            unsafe { queue.waiting.release() };
        }
        // SAFETY: as above.
        unsafe { id.descriptor().slabs.release() };
    }
    // SAFETY: as above.
    unsafe { REGISTRY.release() };
}

fn unlock_in_parent() {
    unlock_all();
    chunk::note_child();
}

/// The threads that are missing in the child were anywhere between two locks.
fn unlock_in_child() {
    unlock_all();
    deferred::seal_in_child();
    limit::restart_in_child();
    if fork::is_alone() {
        return;
    }
    slab_lists::note_fork();
    registry::all_ids().for_each(|id| id.descriptor().depot.recount());
    chunk::free_in_progress_of_gone();
}
