//! What an allocation does before it fails: memory that other caches hold unused becomes free.
//!
//! That is what their depots hold, and the sheaves of the current slot: those of other slots would
//! cost a membarrier. No system call is made.

use crate::moves::slot::{take_main, take_sheaf};
use crate::moves::{flush, refill, registry};
use crate::returning::keeper;
use crate::space::cache_id::CacheId;
use crate::space::chunk;

/// Releases it. True if granules became free.
#[cold]
pub(crate) fn release() -> bool {
    let used_bytes = chunk::footprint().used_bytes;
    for number in 0..registry::numbers_used() {
        let id = CacheId::new(number as u16);
        registry::if_existing(id, flush_slot);
        keeper::flush_depot(id, usize::MAX);
        registry::if_existing(id, release_empty);
    }
    refill::arm_reclaimer_if_pending();
    chunk::footprint().used_bytes < used_bytes
}

/// Flushes the current slot's sheaves, except those of hardened caches, which wait for a purpose.
fn flush_slot(id: CacheId) {
    if id.shape().is_plain() {
        let sheaves = [take_main(id, |_| true), take_sheaf(id.spare(), |_| true)];
        sheaves.into_iter().flatten().for_each(|cursor| flush::flush_sheaf(id, cursor));
    }
}

fn release_empty(id: CacheId) {
    let is_done = refill::release_empty(id, &mut id.descriptor().slabs.lock(), 0);
    if !is_done {
        refill::arm_reclaimer();
    }
}
