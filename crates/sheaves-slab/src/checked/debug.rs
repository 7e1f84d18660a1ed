//! Debug caches, in which every call is checked.
//!
//! Such a cache never has a sheaf, so the fast path fails at every call and needs no check for this
//! mode. Objects go straight from and to their slabs, where a bit that is set already always shows
//! a double free. Freed objects are poisoned, and the poison is checked when the object is
//! allocated again. Objects of caches with a constructor keep their contents and are not poisoned.
//!
//! With `SHEAVES_DEBUG` the cache is a hardened one, too: freed objects wait in the quarantine, and
//! each allocation has a record in the profile of the heap, by which leaks are reported.

use sheaves_percpu::internal::Cursor;
use sheaves_sys::report;

use crate::checked::quarantine;
use crate::moves::flush;
use crate::parts::pool;
use crate::records::object_bytes;
use crate::records::profile::{self, Request};
use crate::space::cache_id::CacheId;
use crate::space::mode;
use crate::space::slab::Slab;

pub(crate) fn alloc(id: CacheId, request: &Request) -> usize {
    let object = quarantine::refill_one(id);
    if object == 0 {
        return 0;
    }
    if !id.shape().hardened {
        object_bytes::check_free(id.shape(), object);
    }
    if mode::is_debug() {
        profile::open(id, object, request);
    }
    object
}

pub(crate) fn free(id: CacheId, object: usize) {
    let (slab, index) = find(id, object);
    if slab.is_marked(index) {
        report_deferred(id, object, "freed");
        return;
    }
    free_checked(id, object);
}

/// Marks an object as deferred; false, with a report, if it is already: it is freed only once.
pub(crate) fn defer(id: CacheId, object: usize) -> bool {
    let (slab, index) = find(id, object);
    if slab.mark(index, true) {
        report_deferred(id, object, "deferred again");
        return false;
    }
    true
}

/// Frees the objects of a sheaf whose cookie has passed, and puts the sheaf into the pool.
pub(crate) fn reclaim(id: CacheId, cursor: Cursor) {
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    let objects = unsafe { cursor.objects() };
    for object in objects {
        free_deferred(id, *object);
    }
    pool::put_empty(cursor.sheaf());
}

/// Frees an object that was deferred and whose cookie has passed.
pub(crate) fn free_deferred(id: CacheId, object: usize) {
    let (slab, index) = find(id, object);
    slab.mark(index, false);
    free_checked(id, object);
}

/// Slab and index of an object that is allocated; aborts the process for anything else.
fn find(id: CacheId, object: usize) -> (&'static Slab, usize) {
    let (slab, index) = flush::find(id, object);
    if slab.is_free(index) || id.shape().hardened && slab.is_held(index) {
        flush::die_of_double_free(id, object);
    }
    (slab, index)
}

fn report_deferred(id: CacheId, object: usize, what: &str) {
    let name = id.shape().name();
    report::report(format_args!(
        "object {object:#x} of cache {name} is {what} although it is deferred; ignored"
    ));
}

fn free_checked(id: CacheId, object: usize) {
    let shape = id.shape();
    if mode::is_debug() {
        profile::close(object);
    }
    if shape.hardened {
        {
            // See `quarantine`.
            let _section = sheaves_rcu::read();
            quarantine::add(id, object);
        }
        quarantine::release_surplus(id);
    } else {
        object_bytes::clear(shape, object);
        flush::flush(id, &mut [object]);
    }
}
