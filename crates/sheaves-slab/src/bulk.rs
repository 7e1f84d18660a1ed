//! Bulk operations: copy ranges between a sheaf and the caller's array.
//!
//! One exchange takes a sheaf out of its word, another puts it back; in between it is emptied or
//! filled as plain memory. Objects that are copied to the caller get tags as in a slot, and those
//! with a tag become samples.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use sheaves_percpu::internal::Sheaf;
use sheaves_percpu::internal::slots::attach;

use crate::checked::samples::sample_if_tagged;
use crate::moves::slot::take_untagged;
use crate::moves::tags::{self, Roles};
use crate::moves::{home, refill};
use crate::records::profile::AllocRequest;
use crate::returning::surplus;
use crate::slow::{self, install};
use crate::space::cache_id::CacheId;
use crate::space::chunk;

/// Fills `out` from the front; returns the number of objects, fewer when memory is out.
pub(crate) fn alloc_bulk(
    id: CacheId,
    out: &mut [MaybeUninit<NonNull<u8>>],
    request: &AllocRequest,
) -> usize {
    let mut done = 0;
    if id.shape().is_plain() {
        done = from_sheaves(id, out, request);
    }
    while done < out.len() {
        // The rest one by one: debug and hardened caches, threads without a slot, memory out.
        match NonNull::new(core::ptr::with_exposed_provenance_mut(slow::alloc_slow(id, request))) {
            Some(object) => out[done].write(object),
            None => break,
        };
        done += 1;
    }
    chunk::do_due_after_alloc();
    done
}

fn from_sheaves(
    id: CacheId,
    out: &mut [MaybeUninit<NonNull<u8>>],
    request: &AllocRequest,
) -> usize {
    let mut done = 0;
    while done < out.len() && attach() {
        let (rest, roles) = (&mut out[done..], Roles::of(id));
        let take = |word| take_untagged(id, word, |cursor| !cursor.is_empty());
        let Some(cursor) = take(roles.source)
            .or_else(|| roles.second.and_then(take))
            .or_else(|| home::keep_own(id, id.take_full()?))
        else {
            match from_slabs(id, rest, request) {
                0 => break,
                count => done += count,
            }
            continue;
        };
        // SAFETY: the sheaf is ours, and this is the only reference to its entries.
        let count = copy(id, unsafe { cursor.objects() }, rest, request);
        done += count;
        install(id, roles.source, cursor.down(count), |other| !other.is_sheaf());
    }
    done
}

/// Moves objects from the slabs straight into the caller's array, at most a sheaf's worth.
fn from_slabs(id: CacheId, out: &mut [MaybeUninit<NonNull<u8>>], request: &AllocRequest) -> usize {
    id.descriptor().depot.missed(id.shape());
    let mut batch = [0; Sheaf::ENTRIES];
    let wanted = out.len().min(id.shape().sheaf_objects);
    let count = refill::refill(id, &mut batch[..wanted]);
    copy(id, &mut batch[wanted - count..wanted], out, request)
}

/// Copies objects, the last one first; returns how many it copied.
fn copy(
    id: CacheId,
    objects: &mut [usize],
    out: &mut [MaybeUninit<NonNull<u8>>],
    request: &AllocRequest,
) -> usize {
    let count = objects.len().min(out.len());
    let first = objects.len() - count;
    let objects = &mut objects[first..];
    tags::tag(id.shape(), objects);
    for (place, entry) in out.iter_mut().zip(objects.iter().rev()) {
        let object = sample_if_tagged(id, *entry, request);
        match NonNull::new(core::ptr::with_exposed_provenance_mut(object)) {
            Some(object) => place.write(object),
            None => sheaves_sys::report::die(format_args!("a sheaf holds a null object")),
        };
    }
    count
}

/// Frees all objects of a slice.
pub(crate) fn free_bulk(id: CacheId, objects: &[NonNull<u8>]) {
    let mut done = 0;
    if id.shape().is_plain() {
        done = into_sheaves(id, objects);
    }
    for object in &objects[done..] {
        slow::free_slow(id, object.as_ptr().expose_provenance());
    }
    surplus::after_free();
}

fn into_sheaves(id: CacheId, objects: &[NonNull<u8>]) -> usize {
    let mut done = 0;
    while done < objects.len() && attach() {
        let sink = Roles::of(id).sink;
        let Some(cursor) = take_untagged(id, sink, |cursor| !cursor.is_full())
            .or_else(|| id.descriptor().depot.empty_sheaf())
        else {
            break;
        };
        // SAFETY: the sheaf is ours, and this is the only reference to its entries.
        let room = unsafe { cursor.room() };
        let count = room.len().min(objects.len() - done);
        for (place, object) in room.iter_mut().zip(&objects[done..]) {
            *place = object.as_ptr().expose_provenance();
        }
        tags::untag_and_close(id, &mut room[..count]);
        done += count;
        install(id, sink, cursor.up(count), |other| !other.is_sheaf());
    }
    done
}
