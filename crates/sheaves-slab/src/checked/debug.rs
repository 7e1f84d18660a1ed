//! Debug caches: hardened ones that check every call at once.
//!
//! Such a cache never has a sheaf in a slot, so the fast path fails at every call and needs no
//! check for this mode. With `SHEAVES_DEBUG` each allocation has a record in the profile of the
//! heap, by which leaks are reported.
//!
//! That an object is deferred is noted in its slab, where a hardened one has the holds of objects
//! that a debug cache's slab has no room for: see [`DEBUG_OBJECTS_MAX`].

use sheaves_sys::report;

use crate::checked::quarantine;
use crate::moves::flush;
use crate::records::profile::{self, AllocRequest};
use crate::space::cache_id::CacheId;
use crate::space::checking;
use crate::space::slab::{DEBUG_OBJECTS_MAX, Slab};

pub(crate) fn alloc(id: CacheId, request: &AllocRequest) -> usize {
    let object = quarantine::refill_one(id);
    if object != 0 && checking::is_debug() {
        profile::open(id, object, request);
    }
    object
}

pub(crate) fn free(id: CacheId, object: usize) {
    let (slab, place) = slab_and_deferred_place(id, object);
    if slab.is_held(place) {
        return report_deferred(id, object, "freed");
    }
    profile::close(object);
    quarantine::free(id, object);
}

/// Notes that an object is deferred; false, with a report, if it is already: it is freed only once.
pub(crate) fn defer(id: CacheId, object: usize) -> bool {
    let (slab, place) = slab_and_deferred_place(id, object);
    let is_first = slab.hold(place / 64, 1 << (place % 64)) == 0;
    if !is_first {
        report_deferred(id, object, "deferred again");
    }
    is_first
}

/// Notes that the grace period of objects is over.
pub(crate) fn end_deferral(id: CacheId, objects: &[usize]) {
    for object in objects {
        let (slab, place) = slab_and_deferred_place(id, *object);
        slab.let_go(place);
        profile::close(*object);
    }
}

/// The slab of an object that is allocated, and the place where it is held while it is deferred;
/// aborts the process for anything else.
fn slab_and_deferred_place(id: CacheId, object: usize) -> (&'static Slab, usize) {
    let (slab, index) = flush::slab_and_index(id, object);
    if quarantine::is_free(id.shape(), slab, index, object) {
        flush::die_of_double_free(id, object);
    }
    (slab, index + DEBUG_OBJECTS_MAX)
}

fn report_deferred(id: CacheId, object: usize, what: &str) {
    let name = id.shape().name();
    report::report(format_args!(
        "object {object:#x} of cache {name} is {what} although it is deferred; ignored"
    ));
}
