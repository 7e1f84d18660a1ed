//! Caches in which every call is checked.
//!
//! Such a cache never has a sheaf, so that the fast path refuses every call and pays nothing for
//! the existence of this file. Objects go straight from and to their slabs: a bit that is set
//! already is a double free, always seen. Freed objects are poisoned, and the poison is checked
//! when the object is handed out again (not in caches with a constructor, whose objects keep
//! their contents).

use crate::descriptor::CacheId;
use crate::{flush, refill, slab};

/// What freed objects are filled with (the byte of the kernel's `POISON_FREE`).
const POISON: u8 = 0x6b;

pub(crate) fn alloc(id: CacheId) -> usize {
    let mut one = [0];
    if refill::refill(id, &mut one) == 0 {
        return 0;
    }
    if id.shape().constructor.is_none() {
        check_poison(id, one[0]);
    }
    one[0]
}

pub(crate) fn free(id: CacheId, object: usize) {
    let shape = id.shape();
    let granule = flush::slab_of(id, shape, object);
    let Some(index) = shape.index_of(object - granule.address()) else {
        flush::inside_object(id, object)
    };
    if slab::header(granule).is_free(index) {
        flush::freed_twice(id, object);
    }
    if shape.constructor.is_none() {
        // SAFETY: the object is of this cache and its owner has given it up.
        let bytes = unsafe { bytes_of(object, shape.stride) };
        bytes.fill(POISON);
    }
    flush::flush(id, &mut [object]);
}

/// An object that was freed before holds poison only; in a fresh slab it reads as zero.
fn check_poison(id: CacheId, object: usize) {
    // SAFETY: the object was just taken from its slab and belongs to nobody else.
    let bytes = unsafe { bytes_of(object, id.shape().stride) };
    let expected = if bytes[0] == POISON { POISON } else { 0 };
    if let Some(place) = bytes.iter().position(|byte| *byte != expected) {
        let name = id.shape().name();
        sheaves_sys::report::die(format_args!(
            "object {object:#x} of cache {name} was written to while it was free, at byte {place}"
        ));
    }
}

/// # Safety
/// `object` starts `count` bytes that the caller owns.
unsafe fn bytes_of<'a>(object: usize, count: usize) -> &'a mut [u8] {
    let start = core::ptr::with_exposed_provenance_mut(object);
    // SAFETY: the same contract.
    unsafe { core::slice::from_raw_parts_mut(start, count) }
}
